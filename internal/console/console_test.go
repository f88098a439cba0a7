package console_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"posthaste/internal/console"
)

func TestFiles(t *testing.T) {
	const script, page = "text/javascript; charset=utf-8", "text/html; charset=utf-8"
	tests := map[string]struct {
		method, path string
		status       int
		media        string
		empty        bool
	}{
		"the page":                       {"GET", "/console", 200, page, false},
		"the page with a slash":          {"GET", "/console/", 200, page, false},
		"a view":                         {"GET", "/console/runs/wfr_a.b", 200, page, false},
		"a script":                       {"GET", "/console/assets/console.js", 200, script, false},
		"a style sheet":                  {"GET", "/console/assets/console.css", 200, "text/css; charset=utf-8", false},
		"the head of a script":           {"HEAD", "/console/assets/console.js", 200, script, true},
		"a file there is not":            {"GET", "/console/assets/other.js", 404, "text/plain; charset=utf-8", false},
		"a way out of the directory":     {"GET", "/console/assets/../console.go", 404, "text/plain; charset=utf-8", false},
		"a method that changes anything": {"POST", "/console", 405, "text/plain; charset=utf-8", false},
	}
	handler := console.New()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, httptest.NewRequest(test.method, test.path, nil))
			media := response.Header().Get("Content-Type")
			if response.Code != test.status || media != test.media || (response.Body.Len() == 0) != test.empty {
				t.Errorf("status %d, %s, %d bytes", response.Code, media, response.Body.Len())
			}
			policy := response.Header().Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
				t.Errorf("policy %q lets more in than the console's own files", policy)
			}
		})
	}
}

func TestWhoHasAFileIsNotSentItAgain(t *testing.T) {
	handler := console.New()
	first := httptest.NewRecorder()
	handler.ServeHTTP(first, httptest.NewRequest(http.MethodGet, "/console/assets/console.js", nil))
	request := httptest.NewRequest(http.MethodGet, "/console/assets/console.js", nil)
	request.Header.Set("If-None-Match", first.Header().Get("Etag"))
	second := httptest.NewRecorder()
	handler.ServeHTTP(second, request)
	if second.Code != http.StatusNotModified || second.Body.Len() != 0 {
		t.Errorf("status %d and %d bytes, want 304 and none", second.Code, second.Body.Len())
	}
}

// TestPageKeepsToItsPolicy looks for what the policy would refuse: a page that needs
// it would be broken in every browser.
func TestPageKeepsToItsPolicy(t *testing.T) {
	response := httptest.NewRecorder()
	console.New().ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/console", nil))
	page := response.Body.String()
	for what, pattern := range map[string]string{
		"a script in the page":     `<script[^>]*>[^<]`,
		"a style in the page":      `<style|style=`,
		"a handler in the page":    `\son[a-z]+=`,
		"something from elsewhere": `(src|href)="(https?:)?//`,
	} {
		if found := regexp.MustCompile(pattern).FindString(page); found != "" {
			t.Errorf("%s: %s", what, found)
		}
	}
}

func TestHas(t *testing.T) {
	tests := map[string]bool{
		"/console": true, "/console/": true, "/console/logs": true,
		"/consoles": false, "/": false, "/v2/publish/http://a/console": false,
	}
	for path, want := range tests {
		if got := console.Has(path); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
}

// TestSize keeps the console small: all that a browser fetches, compressed.
func TestSize(t *testing.T) {
	const most = 150_000
	var size counter
	compressor := gzip.NewWriter(&size)
	for _, path := range []string{"/console", "/console/assets/console.js", "/console/assets/console.css", "/console/assets/icon.svg"} {
		response := httptest.NewRecorder()
		console.New().ServeHTTP(response, httptest.NewRequest(http.MethodGet, path, nil))
		if _, err := io.Copy(compressor, response.Body); err != nil || response.Code != http.StatusOK {
			t.Fatalf("%s: status %d, %v", path, response.Code, err)
		}
	}
	if err := compressor.Close(); err != nil {
		t.Fatal(err)
	}
	if size > most {
		t.Errorf("the console takes %d bytes compressed, want at most %d", size, most)
	}
	t.Logf("%d bytes compressed", size)
}

type counter int

func (c *counter) Write(data []byte) (int, error) {
	*c += counter(len(data))
	return len(data), nil
}
