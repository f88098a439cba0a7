package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste/internal/telemetry"
)

// TestRoutesHaveAClass checks that no request that docs/api.md tells of, which are
// all there are, is counted as "other".
func TestRoutesHaveAClass(t *testing.T) {
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	paths := regexp.MustCompile("`(?:[A-Z]+ )?(/v2/[^`?]*)").FindAllSubmatch(page, -1)
	if len(paths) < 50 {
		t.Fatalf("docs/api.md tells of %d paths, it used to be more", len(paths))
	}
	for _, path := range paths {
		registry := prometheus.NewRegistry()
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.URL.Path = string(path[1])
		telemetry.NewRequests(registry).Count(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), request)
		if _, other := gather(t, registry)["posthaste_http_requests_total{route=other,status=4xx}"]; other {
			t.Errorf("%s is counted as other", path[1])
		}
	}
}
