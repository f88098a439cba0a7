// Package openapitest compares what goes over the wire with the description of the
// API: whatever a server answers has to be described, and whatever it takes.
//
// Descriptions allow later members; the comparison does not: an answer with
// a member that is not described is a fault of the description.
package openapitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"posthaste/internal/openapi"
)

// Exchange is a request and its answer.
type Exchange struct {
	Method        string
	Target        string // path and query, as they were sent
	RequestHeader http.Header
	RequestBody   []byte
	Status        int
	Header        http.Header
	Body          []byte
}

// Checker knows the description. It may be used by many goroutines.
type Checker struct {
	operations []operation
	failure    *jsonschema.Schema // of every answer where nothing is described
}

// operation is an operation with its schemas.
type operation struct {
	*openapi.Operation
	path       *regexp.Regexp
	literal    int // bytes of the path that stand for themselves
	parameters map[*openapi.Parameter]*jsonschema.Schema
	body       *jsonschema.Schema
	answers    map[string]map[string]*jsonschema.Schema // by status and media type
}

// New reads the description.
func New() (*Checker, error) {
	document, err := openapi.Parse()
	if err != nil {
		return nil, err
	}
	schemas, err := newSchemas()
	if err != nil {
		return nil, err
	}
	c := &Checker{}
	if c.failure, err = schemas.answer("/components/schemas/Error"); err != nil {
		return nil, err
	}
	for _, described := range document.Operations() {
		o, err := newOperation(described, schemas)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", described.Method, described.Path, err)
		}
		c.operations = append(c.operations, o)
	}
	slices.SortStableFunc(c.operations, func(a, b operation) int { return b.literal - a.literal })
	return c, nil
}

// origin begins a target in absolute form, as a proxy is asked.
var origin = regexp.MustCompile(`^https?://[^/]*`)

// Check returns what of an exchange is not as it is described, nil if all is.
func (c *Checker) Check(x Exchange) error {
	path, query, _ := strings.Cut(origin.ReplaceAllString(x.Target, ""), "?")
	o := c.find(x.Method, path)
	if o == nil {
		return c.checkRefusal(x)
	}
	if err := o.checkAnswer(x); err != nil {
		return fmt.Errorf("%s %s answers %d: %w", o.Method, o.Path, x.Status, err)
	}
	if x.Status >= http.StatusBadRequest {
		return nil // a refused request need not be as it is described
	}
	if err := o.checkRequest(x, query); err != nil {
		return fmt.Errorf("%s %s takes what is not described: %w", o.Method, o.Path, err)
	}
	return nil
}

// checkRefusal checks the answer where there is no such operation.
func (c *Checker) checkRefusal(x Exchange) error {
	if x.Status < http.StatusBadRequest {
		return fmt.Errorf("%s %s answers %d and is not described", x.Method, x.Target, x.Status)
	}
	if x.Method == http.MethodHead {
		return nil
	}
	return validate(c.failure, x.Body)
}

// find returns the operation that a request is for: of those whose paths match, the one
// that says most of it. HEAD is GET.
func (c *Checker) find(method, path string) *operation {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	path = "/" + strings.TrimLeft(path, "/")
	for i := range c.operations {
		if o := &c.operations[i]; o.Method == method && o.path.MatchString(path) {
			return o
		}
	}
	return nil
}

var placeholder = regexp.MustCompile(`\{[^}]+\}`)

// newOperation compiles what an operation describes.
func newOperation(described *openapi.Operation, schemas *schemas) (operation, error) {
	o := operation{
		Operation:  described,
		literal:    len(placeholder.ReplaceAllString(described.Path, "")),
		parameters: make(map[*openapi.Parameter]*jsonschema.Schema),
		answers:    make(map[string]map[string]*jsonschema.Schema),
	}
	o.path = regexp.MustCompile("^(?i:" + placeholder.ReplaceAllStringFunc(described.Path, o.pathPattern) + ")/?$")
	var err error
	for _, p := range described.Parameters {
		if o.parameters[p], err = schemas.parameter(p); err != nil {
			return o, err
		}
	}
	if described.RequestBody != nil {
		if o.body, err = schemas.requestBody(described.RequestBody); err != nil {
			return o, err
		}
	}
	for _, answer := range described.Responses {
		if o.answers[answer.Name], err = schemas.answers(answer.Value); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (o *operation) pathPattern(placeholder string) string {
	for _, p := range o.Parameters {
		if p.In == "path" && "{"+p.Name+"}" == placeholder && p.RestOfPath {
			return ".+"
		}
	}
	return "[^/]+"
}

// checkAnswer compares an answer with what is described for its status.
func (o *operation) checkAnswer(x Exchange) error {
	forms, described := o.answers[strconv.Itoa(x.Status)]
	if !described {
		if x.Status < http.StatusBadRequest {
			return fmt.Errorf("the status is not described")
		}
		if forms, described = o.answers["default"]; !described {
			return fmt.Errorf("the status is not described")
		}
	}
	if x.Method == http.MethodHead || len(forms) == 0 {
		return nil
	}
	media, _, _ := mime.ParseMediaType(x.Header.Get("Content-Type"))
	schema, described := forms[media]
	if !described {
		return fmt.Errorf("the media type %q is not described", media)
	}
	if media != "application/json" {
		return nil
	}
	return validate(schema, x.Body)
}

// tolerated are parameters without effect that some clients add to every request.
var tolerated = []string{"api", "count", "cursor", "order", "qstash_token"}

// checkRequest compares a request that was not refused with what is described.
func (o *operation) checkRequest(x Exchange, rawQuery string) error {
	query, err := url.ParseQuery(rawQuery)
	if err != nil && !o.takesQuery() {
		return err
	}
	given := map[string]bool{}
	for p, schema := range o.parameters {
		given[p.Name], given[p.Alias] = true, true
		for _, value := range values(p, query, x.RequestHeader) {
			if err := validateText(schema, value); err != nil {
				return fmt.Errorf("%s %q: %w", p.Name, value, err)
			}
		}
	}
	for name := range query {
		if !given[strings.TrimSuffix(name, "[]")] && !o.takesQuery() && !isReserved(name) {
			return fmt.Errorf("query parameter %q", name)
		}
	}
	if o.body == nil || len(x.RequestBody) == 0 || refusesSome(x.Body) {
		return nil
	}
	return validate(o.body, x.RequestBody)
}

// refusesSome reports whether the answer to a batch has an error in the place of an item.
func refusesSome(answer []byte) bool {
	type item struct {
		Error string `json:"error"`
	}
	var items []item
	err := json.Unmarshal(answer, &items)
	return err == nil && slices.ContainsFunc(items, func(i item) bool { return i.Error != "" })
}

// takesQuery reports whether any parameters are taken: one of them is described as all
// that there are.
func (o *operation) takesQuery() bool {
	return slices.ContainsFunc(o.Parameters, func(p *openapi.Parameter) bool {
		return p.In == "query" && slices.Contains(p.Schema.Type, "object")
	})
}

func isReserved(name string) bool {
	lower := strings.ToLower(name)
	return slices.Contains(tolerated, name) || strings.HasPrefix(lower, "upstash-") || strings.HasPrefix(lower, "service-")
}

// values returns the values of a parameter that are given. An empty one counts as none.
func values(p *openapi.Parameter, query url.Values, header http.Header) []string {
	var all []string
	switch p.In {
	case "query":
		all = query[p.Name]
	case "header":
		all = header.Values(p.Name)
		if suffix, ok := strings.CutPrefix(p.Name, "Upstash-"); ok {
			if preferred := header.Values("Service-" + suffix); len(preferred) > 0 {
				all = preferred
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(value string) bool { return value == "" })
}

// validateText checks a text, which may stand for a number.
func validateText(schema *jsonschema.Schema, text string) error {
	err := schema.Validate(text)
	if err == nil {
		return nil
	}
	if _, isNumber := strconv.ParseInt(text, 10, 64); isNumber == nil {
		return schema.Validate(json.Number(text))
	}
	return err
}

func validate(schema *jsonschema.Schema, body []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w in %.200s", err, body)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("%w in %.2000s", err, body)
	}
	return nil
}
