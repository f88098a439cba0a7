package site_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"posthaste/internal/openapi"
	"posthaste/internal/site"
)

// get asks the documentation for a path.
func get(t *testing.T, method, target string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(method, target, nil)
	if !site.Has(request.URL.Path) {
		t.Fatalf("%s is not served", target)
	}
	response := httptest.NewRecorder()
	site.Handler().ServeHTTP(response, request)
	return response
}

func TestHandler(t *testing.T) {
	const html = "text/html; charset=utf-8"
	tests := map[string]struct {
		method, target, mediaType string
		status                    int
		has                       string
	}{
		"the description of the API": {"GET", "/openapi.yaml", "application/yaml", http.StatusOK, "openapi: 3.1"},
		"home":                       {"GET", "/docs", html, http.StatusOK, "<h1"},
		"home with a slash":          {"GET", "/docs/", html, http.StatusOK, "<h1"},
		"a page":                     {"GET", "/docs/operations", html, http.StatusOK, `aria-current="page">Operating a server`},
		"a guide":                    {"GET", "/docs/guides/3am", html, http.StatusOK, `<a href="/docs/operations#when-the-disk-fails">`},
		"a page as it is written":    {"GET", "/docs/guides/3am.md", "text/markdown; charset=utf-8", http.StatusOK, "# It failed"},
		"its style":                  {"GET", "/docs/style.css", "text/css; charset=utf-8", http.StatusOK, "color-scheme"},
		"the reference":              {"GET", "/docs/reference", html, http.StatusOK, "/docs/reference.js"},
		"the list for programs":      {"GET", "/llms.txt", "text/plain; charset=utf-8", http.StatusOK, "[Operating a server](/docs/operations.md)"},
		"a search":                   {"GET", "/docs/search?q=restart+DLQ", html, http.StatusOK, "/docs/guides/restart#"},
		"a search of the reference":  {"GET", "/docs/search?q=/v2/workflows/dlq/restart", html, http.StatusOK, "/docs/reference#"},
		"a search without marks":     {"GET", "/docs/search?q=GET+/v2/schedules", html, http.StatusOK, "lists them; reads one POST /v2/queues creates or updates one"},
		"a search that finds none":   {"GET", "/docs/search?q=zzzz", html, http.StatusOK, "0 passages have all words of “zzzz”"},
		"a search for nothing":       {"GET", "/docs/search", html, http.StatusOK, "Give one word or more"},
		"a search for markup":        {"GET", "/docs/search?q=%3Cscript%3E", html, http.StatusOK, "“&lt;script&gt;”"},
		"no page":                    {"GET", "/docs/none", html, http.StatusNotFound, "There is no page here"},
		"no page of the docs":        {"GET", "/docs/../README.md", html, http.StatusNotFound, "There is no page here"},
		"another method":             {"POST", "/docs", "application/json", http.StatusMethodNotAllowed, `{"error":`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			response := get(t, test.method, test.target)
			if got := response.Header().Get("Content-Type"); response.Code != test.status || got != test.mediaType {
				t.Errorf("answers %d %s, want %d %s", response.Code, got, test.status, test.mediaType)
			}
			if !strings.Contains(response.Body.String(), test.has) {
				t.Errorf("the answer does not have %s", test.has)
			}
		})
	}
	for _, path := range []string{"/v2/logs", "/docsx"} {
		if site.Has(path) {
			t.Errorf("%s is served", path)
		}
	}
}

// TestLinks follows all links of all pages: each leads to something that is served, and to a place
// in it, and no page asks another host for anything.
func TestLinks(t *testing.T) {
	links := regexp.MustCompile(`(?:href|src)="([^"#]*)(#[^"]*)?"`)
	seen := map[string]string{}
	queue := []string{"/docs"}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		response := get(t, "GET", path)
		body := response.Body.String()
		seen[path] = body
		if response.Code != http.StatusOK {
			t.Errorf("a page has a link to %s, which answers %d", path, response.Code)
		}
		if policy := response.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'self';") {
			t.Errorf("%s may load more than what is here: %s", path, policy)
		}
		if !strings.HasPrefix(response.Header().Get("Content-Type"), "text/html") {
			continue
		}
		for _, link := range links.FindAllStringSubmatch(body, -1) {
			target := link[1]
			switch {
			case target == "" || strings.Contains(target, "://") || target == "/console":
				continue
			case !site.Has(target):
				t.Errorf("%s has a link to %s, which is not served", path, target)
				continue
			}
			if _, ok := seen[target]; !ok {
				seen[target] = ""
				queue = append(queue, target)
			}
		}
	}
	for path, body := range seen {
		for _, link := range links.FindAllStringSubmatch(body, -1) {
			target := link[1]
			if target == "" {
				target = path
			}
			if there, ok := seen[target]; ok && link[2] != "" && link[2] != "#" && !strings.Contains(there, `id="`+link[2][1:]+`"`) {
				t.Errorf("the link %s%s of %s leads nowhere", target, link[2], path)
			}
		}
		for _, foreign := range []string{`src="http`, "<script>", "style="} {
			if at := strings.Index(body, foreign); at >= 0 && !strings.HasSuffix(path, ".js") {
				t.Errorf("%s has %q: %.80s", path, foreign, body[at:])
			}
		}
	}
	if len(seen) < 30 {
		t.Errorf("only %d pages were found", len(seen))
	}
}

// TestReference checks that all operations are on the page.
func TestReference(t *testing.T) {
	page := get(t, "GET", "/docs/reference").Body.String()
	document, err := openapi.Parse()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range document.Operations() {
		if strings.Count(page, `id="`+o.ID+`"`) != 1 {
			t.Errorf("%s is not on the page, or more than once", o.ID)
		}
	}
}
