package app

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"posthaste/internal/openapi"
)

// TestOpenPathsAreDescribed checks that the description of the API has every path beside
// the API that is answered without a token, and that each is answered as it says.
func TestOpenPathsAreDescribed(t *testing.T) {
	document, err := openapi.Parse()
	if err != nil {
		t.Fatal(err)
	}
	var described []string
	for _, o := range document.Operations() {
		if !strings.HasPrefix(o.Path, "/v2/") {
			described = append(described, o.Method+" "+o.Path)
		}
	}
	slices.Sort(described)
	want := []string{"GET /console", "GET /docs", "GET /healthz", "GET /metrics", "GET /openapi.yaml", "GET /readyz"}
	if !slices.Equal(described, want) {
		t.Errorf("described are %q, answered are %q", described, want)
	}
	_, url := start(t, t.TempDir())
	for _, operation := range described {
		path := strings.TrimPrefix(operation, "GET ")
		if (&routes{ready: http.NotFoundHandler(), metrics: http.NotFoundHandler(), console: http.NotFoundHandler(), docs: http.NotFoundHandler()}).open(path) == nil {
			t.Errorf("%s asks for a token", operation)
		}
		if answer := fetch(t, http.MethodGet, url+path); answer.status != http.StatusOK {
			t.Errorf("%s answers %d", operation, answer.status)
		}
	}
}
