package app

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestTheEndDoesNotWaitForACollector has one that takes what it is sent and never responds. The
// exporter itself would wait for an hour.
func TestTheEndDoesNotWaitForACollector(t *testing.T) {
	asked, end := make(chan struct{}, 10), make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-end
	}))
	defer collector.Close()
	defer close(end)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000")
	var log bytes.Buffer
	options := Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
	a := &App{}
	if err := a.startExport(t.Context(), &options); err != nil {
		t.Fatal(err)
	}
	options.Log.Info("the last line")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel() // as the time that is left does
	}()
	a.finishExport(ctx, time.Hour)
	if text := log.String(); !strings.Contains(text, "export.failed") || !strings.Contains(text, "canceled") {
		t.Errorf("log %q does not say that the collector did not respond", text)
	}
}
