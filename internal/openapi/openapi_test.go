package openapi_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"posthaste/internal/openapi"
)

func parse(t *testing.T) *openapi.Document {
	t.Helper()
	document, err := openapi.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// TestOperations checks what readers and generators of clients rely on in each of them.
func TestOperations(t *testing.T) {
	document := parse(t)
	ids := map[string]bool{}
	for _, o := range document.Operations() {
		t.Run(o.Method+" "+o.Path, func(t *testing.T) {
			if o.ID == "" || ids[o.ID] {
				t.Errorf("operationId %q is missing, or not the only one", o.ID)
			}
			ids[o.ID] = true
			if o.Summary == "" || len(o.Responses) == 0 {
				t.Error("no summary, or no answer")
			}
			for _, tag := range o.Tags {
				if !slices.ContainsFunc(document.Tags, func(known openapi.Tag) bool { return known.Name == tag }) {
					t.Errorf("tag %q is not in the list of tags", tag)
				}
			}
			if len(o.Tags) != 1 {
				t.Errorf("%d tags: the page shows an operation once", len(o.Tags))
			}
			checkParameters(t, o)
		})
	}
}

var placeholder = regexp.MustCompile(`\{([^}]+)\}`)

// checkParameters checks that a path and its parameters name the same.
func checkParameters(t *testing.T, o *openapi.Operation) {
	t.Helper()
	var inPath, described []string
	for _, match := range placeholder.FindAllStringSubmatch(o.Path, -1) {
		inPath = append(inPath, match[1])
	}
	for _, p := range o.Parameters {
		if p == nil {
			t.Fatal("a reference of a parameter leads nowhere")
		}
		if p.In == "path" {
			described = append(described, p.Name)
		}
	}
	slices.Sort(inPath)
	slices.Sort(described)
	if !slices.Equal(inPath, described) {
		t.Errorf("the path has %q, described are %q", inPath, described)
	}
}

func get(t *testing.T, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	if !openapi.Has(path) {
		t.Fatalf("%s is not served", path)
	}
	response := httptest.NewRecorder()
	openapi.Handler().ServeHTTP(response, httptest.NewRequest(method, path, nil))
	return response
}

func TestHandler(t *testing.T) {
	tests := map[string]struct {
		method, path, mediaType string
		status                  int
	}{
		"the description": {"GET", "/openapi.yaml", "application/yaml", http.StatusOK},
		"the page":        {"GET", "/docs", "text/html; charset=utf-8", http.StatusOK},
		"with a slash":    {"GET", "/docs/", "text/html; charset=utf-8", http.StatusOK},
		"its style":       {"GET", "/docs/style.css", "text/css; charset=utf-8", http.StatusOK},
		"another method":  {"POST", "/docs", "application/json", http.StatusMethodNotAllowed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			response := get(t, test.method, test.path)
			if got := response.Header().Get("Content-Type"); response.Code != test.status || got != test.mediaType {
				t.Errorf("answers %d %s, want %d %s", response.Code, got, test.status, test.mediaType)
			}
		})
	}
}

// TestPage checks that all operations and schemas are on the page, that its links lead
// somewhere, and that it asks nobody else for anything.
func TestPage(t *testing.T) {
	response := get(t, "GET", "/docs")
	page := response.Body.String()
	for _, o := range parse(t).Operations() {
		if strings.Count(page, `id="`+o.ID+`"`) != 1 {
			t.Errorf("%s is not on the page, or more than once", o.ID)
		}
	}
	for _, link := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `id="`+link[1]+`"`) {
			t.Errorf("the link #%s leads nowhere", link[1])
		}
	}
	for _, foreign := range []string{"//", "<script", "style="} {
		if at := strings.Index(page, foreign); at >= 0 {
			t.Errorf("the page has %q: %.80s", foreign, page[at:])
		}
	}
	if policy := response.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'self';") {
		t.Errorf("the page may load more than its style: %s", policy)
	}
}
