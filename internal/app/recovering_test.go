package app

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste/internal/telemetry"
)

// lockedBuffer is a log that is written by one goroutine and read by another.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// TestPanicIsAnswered checks that whoever calls a handler that panics gets an
// error in the usual form, without the cause, and that the log and the metrics
// know of it (contract, decision 14).
func TestPanicIsAnswered(t *testing.T) {
	nothing := func(http.ResponseWriter) {}
	tests := map[string]struct {
		before func(http.ResponseWriter)
		cause  any
		log    string
	}{
		"a text":            {nothing, "secret detail", "secret detail"},
		"an error":          {nothing, errors.New("secret detail"), "secret detail"},
		"nothing at all":    {nothing, nil, "panic called with nil argument"},
		"after informing":   {func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, "secret detail", "secret detail"},
		"after its headers": {func(w http.ResponseWriter) { w.Header().Set("Content-Length", "7") }, "secret detail", "secret detail"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var log lockedBuffer
			registry := prometheus.NewRegistry()
			handler := telemetry.NewRequests(registry).Count(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				test.before(w)
				panic(test.cause)
			}))
			url := serveHandler(t, handler, slog.New(slog.NewJSONHandler(&log, nil)))
			status, body := call(t, http.MethodGet, url+"/v2/publish/https://user:password@example.com")

			const want = `{"error":"the server failed to answer this request, see its log"}` + "\n"
			if status != http.StatusInternalServerError || body != want {
				t.Errorf("%d %s, want 500 %s", status, body, want)
			}
			line := log.String()
			for _, part := range []string{`"msg":"request.panicked"`, test.log, "recovering_test.go"} {
				if !strings.Contains(line, part) {
					t.Errorf("the log lacks %q: %s", part, line)
				}
			}
			if strings.Contains(line, "password") {
				t.Errorf("the log has the destination: %s", line)
			}
			metrics := ask(metricsHandler(registry, slog.New(slog.DiscardHandler)), http.MethodGet, "/metrics").Body.String()
			if count := `posthaste_http_requests_total{route="publish",status="5xx"} 1`; !strings.Contains(metrics, count) {
				t.Errorf("the metrics lack %s:\n%s", count, metrics)
			}
		})
	}
}

// TestPanicCutsAnAnswer checks that a client does not take a part of an answer for
// the whole, and that only a panic that asks for this goes without a log line.
func TestPanicCutsAnAnswer(t *testing.T) {
	nothing := func(http.ResponseWriter) {}
	write := func(w http.ResponseWriter) { _, _ = io.WriteString(w, "half of") }
	flush := func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
	tests := map[string]struct {
		begin func(http.ResponseWriter)
		cause any
		lines int
	}{
		"a bug":                   {write, "detail", 1},
		"a bug after the headers": {flush, "detail", 1},
		"on purpose":              {write, http.ErrAbortHandler, 0},
		"on purpose, at once":     {nothing, http.ErrAbortHandler, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var log lockedBuffer
			url := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				test.begin(w)
				panic(test.cause)
			}), slog.New(slog.NewTextHandler(&log, nil)))
			transport := &http.Transport{DisableKeepAlives: true}
			request, err := http.NewRequest(http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if err == nil {
				_, err = io.ReadAll(response.Body)
				_ = response.Body.Close()
			}
			if err == nil {
				t.Error("the client got an answer that looks complete")
			}
			if got := strings.Count(log.String(), "\n"); got != test.lines {
				t.Errorf("%d lines in the log, want %d:\n%s", got, test.lines, log.String())
			}
		})
	}
}
