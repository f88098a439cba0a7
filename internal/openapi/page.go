package openapi

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed page.html
var pageSource string

//go:embed page.css
var pageStyle []byte

// policy lets the page show itself and its style, and nothing else.
const policy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page is made when it is first asked for.
var page = sync.OnceValue(func() []byte {
	text, err := render()
	if err != nil {
		panic(err) // what it is made of is part of the program
	}
	return text
})

// files are what is served, by path.
var files = map[string]file{
	"/openapi.yaml":   {"application/yaml", func() []byte { return Source }},
	"/docs":           {"text/html; charset=utf-8", page},
	"/docs/":          {"text/html; charset=utf-8", page},
	"/docs/style.css": {"text/css; charset=utf-8", func() []byte { return pageStyle }},
}

// file is what is served at a path.
type file struct {
	mediaType string
	content   func() []byte
}

// Has reports whether Handler serves a path.
func Has(path string) bool {
	_, ok := files[path]
	return ok
}

// Handler returns the handler of the description, /openapi.yaml, and of its page, /docs,
// which is without a script and without a request to any other place.
func Handler() http.Handler { return http.HandlerFunc(serve) }

func serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		header.Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusMethodNotAllowed)
		_, _ = w.Write([]byte(`{"error":"this page can be read by GET only"}` + "\n")) // the client may be gone
		return
	}
	f := files[r.URL.Path]
	header.Set("Content-Type", f.mediaType)
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(f.content())
}

// render makes the page.
func render() ([]byte, error) {
	d, err := Parse()
	if err != nil {
		return nil, err
	}
	layout, err := template.New("page").Funcs(template.FuncMap{
		"prose": prose, "kind": kind, "members": d.members,
	}).Parse(pageSource)
	if err != nil {
		return nil, fmt.Errorf("read the page of the reference: %w", err)
	}
	var text bytes.Buffer
	if err := layout.Execute(&text, struct {
		*Document
		Chapters []chapter
	}{d, d.chapters()}); err != nil {
		return nil, fmt.Errorf("make the page of the reference: %w", err)
	}
	return text.Bytes(), nil
}

// chapter is a tag and its operations.
type chapter struct {
	Tag
	Operations []*Operation
}

func (d *Document) chapters() []chapter {
	all := d.Operations()
	chapters := make([]chapter, len(d.Tags))
	for i, tag := range d.Tags {
		chapters[i].Tag = tag
		for _, o := range all {
			if slices.Contains(o.Tags, tag.Name) {
				chapters[i].Operations = append(chapters[i].Operations, o)
			}
		}
	}
	return chapters
}

var quoted = regexp.MustCompile("`([^`]+)`")

// prose returns paragraphs, in which `what stands between such marks` is code.
func prose(text string) template.HTML {
	var html strings.Builder
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		escaped := template.HTMLEscapeString(paragraph)
		html.WriteString("<p>" + quoted.ReplaceAllString(escaped, "<code>$1</code>") + "</p>")
	}
	return template.HTML(html.String())
}

// kind says what values a schema describes, in a few words with links.
func kind(s *Schema) template.HTML {
	switch {
	case s == nil:
		return "any bytes"
	case s.Ref != "":
		name := ComponentName(s.Ref)
		return template.HTML(fmt.Sprintf(`<a href="#%[1]s">%[1]s</a>`, template.HTMLEscapeString(name)))
	case len(s.AnyOf) > 0:
		return joined(s.AnyOf, " or ")
	case len(s.AllOf) > 0:
		return joined(s.AllOf, " and ")
	case s.Items != nil:
		return "array of " + kind(s.Items)
	case s.Additional != nil:
		return "object of " + kind(s.Additional)
	case len(s.Enum) > 0:
		return template.HTML(template.HTMLEscapeString(strings.Join(slices.DeleteFunc(slices.Clone(s.Enum), isEmpty), ", ")))
	case len(s.Properties) > 0:
		var names []string
		for _, p := range s.Properties {
			names = append(names, p.Name)
		}
		return template.HTML("object with " + template.HTMLEscapeString(strings.Join(names, ", ")))
	case len(s.Type) > 0:
		return template.HTML(template.HTMLEscapeString(strings.Join(s.Type, " or ")))
	default:
		return "anything"
	}
}

func isEmpty(text string) bool { return text == "" }

func joined(schemas []*Schema, with string) template.HTML {
	var kinds []string
	for _, s := range schemas {
		kinds = append(kinds, string(kind(s)))
	}
	return template.HTML(strings.Join(kinds, with))
}

// member is a member of an object.
type member struct {
	Name     string
	Required bool
	Schema   *Schema
}

// members returns the members of an object, also those of what it is made of.
func (d *Document) members(s *Schema) []member {
	if s.Ref != "" {
		s, _ = d.Components.Schemas.Get(ComponentName(s.Ref))
	}
	var all []member
	for _, part := range s.AllOf {
		all = append(all, d.members(part)...)
	}
	for _, p := range s.Properties {
		all = append(all, member{p.Name, slices.Contains(s.Required, p.Name), p.Value})
	}
	return all
}
