package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestRunMetrics checks that runs are counted as they begin and end.
func TestRunMetrics(t *testing.T) {
	called := make(chan struct{})
	release := make(chan struct{})
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			called <- struct{}{}
			<-release
		}
		http.NotFound(w, r)
	}))
	defer endpoint.Close()
	defer close(release)
	url := startWith(t, func(*Options) {})

	call(t, http.MethodPost, url+"/v2/trigger/"+endpoint.URL+"/gone?upstash-retries=0")
	awaitMetric(t, url, `posthaste_runs_total{state="RUN_FAILED"} 1`)
	awaitMetric(t, url, `posthaste_failed_total{kind="run"} 1`)
	call(t, http.MethodPost, url+"/v2/trigger/"+endpoint.URL+"/held?upstash-retries=0")
	<-called
	call(t, http.MethodDelete, url+"/v2/workflows/runs")
	awaitMetric(t, url, `posthaste_runs_total{state="RUN_CANCELED"} 1`)
	awaitMetric(t, url, `posthaste_runs_total{state="RUN_STARTED"} 2`)
}

// awaitMetric waits until /metrics has a line.
func awaitMetric(t *testing.T, url, line string) {
	t.Helper()
	const patience = time.Minute
	var page string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if _, page = call(t, http.MethodGet, url+"/metrics"); strings.Contains(page, line+"\n") {
			return
		}
	}
	t.Fatalf("no line %q within %s in\n%s", line, patience, page)
}
