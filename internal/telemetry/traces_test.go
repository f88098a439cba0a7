package telemetry

import (
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"posthaste"
	"posthaste/internal/engine"
)

const caller posthaste.TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func traced() *posthaste.Message {
	return &posthaste.Message{
		ID: posthaste.MessageID{15: 1}, User: "ada", URL: "https://name:leak@example.com/leak?token=leak",
		Body: []byte("leak"), CreatedAt: time.Unix(1_700_000_000, 0),
	}
}

// recording returns traces and what becomes of their spans.
func recording(t *testing.T, sampler string) (*Traces, *tracetest.InMemoryExporter) {
	t.Helper()
	s, err := newSampler(sampler, "")
	if err != nil {
		t.Fatal(err)
	}
	exporter := tracetest.NewInMemoryExporter()
	traces := newTraces(s, sdk.WithSyncer(exporter))
	t.Cleanup(func() { _ = traces.Stop(context.Background()) })
	return traces, exporter
}

// TestContextsAreThoseOfSpans checks that the contexts that are told are those that the
// spans have later, with a parent and without.
func TestContextsAreThoseOfSpans(t *testing.T) {
	for name, parent := range map[string]posthaste.TraceContext{"within a trace": caller, "at its beginning": ""} {
		t.Run(name, func(t *testing.T) {
			traces, exporter := recording(t, "")
			m := traced()
			m.Trace = parent
			published := traces.Publish(m)
			traces.Published(m, parent)
			m.Trace = published
			first, second := traces.Attempt(m, 0), traces.Attempt(m, 1)
			failed := posthaste.Outcome{Class: posthaste.OutcomeRetryable, Error: "no"}
			traces.attemptFinished(engine.AttemptReport{Message: m, Outcome: failed, State: posthaste.StateRetry})
			traces.attemptFinished(engine.AttemptReport{Message: m, Retried: 1, State: posthaste.StateDelivered})

			spans := exporter.GetSpans()
			if len(spans) != 3 {
				t.Fatalf("%d spans, want 3", len(spans))
			}
			for i, want := range []posthaste.TraceContext{published, first, second} {
				if got := written(spans[i].SpanContext); got != want {
					t.Errorf("span %s has the context %s, %s was told", spans[i].Name, got, want)
				}
			}
			if got := spans[0].Parent.IsValid(); got != (parent != "") {
				t.Errorf("the publication has a parent: %v", got)
			}
			if spans[1].Parent.SpanID() != spans[0].SpanContext.SpanID() {
				t.Error("the attempt is not part of the publication")
			}
			if len(spans[2].Links) != 1 || spans[2].Links[0].SpanContext.SpanID() != spans[1].SpanContext.SpanID() {
				t.Errorf("the retry has the links %v", spans[2].Links)
			}
		})
	}
}

func TestAbandonedAttemptHasNoSpan(t *testing.T) {
	traces, exporter := recording(t, "")
	traces.attemptFinished(engine.AttemptReport{Message: traced(), State: posthaste.StateActive})
	if spans := exporter.GetSpans(); len(spans) > 0 {
		t.Errorf("%d spans, but the attempt is made again under the same id", len(spans))
	}
}

// TestSampling checks that destinations are told what the sampler decides.
func TestSampling(t *testing.T) {
	const dropped = posthaste.TraceContext("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")
	tests := map[string]struct {
		sampler string
		parent  posthaste.TraceContext
		want    bool
	}{
		"by default":                    {"", "", true},
		"as the publisher does":         {"", caller, true},
		"as the publisher does not":     {"", dropped, false},
		"always":                        {"always_on", dropped, true},
		"never":                         {"always_off", caller, false},
		"never unless the publisher":    {"parentbased_always_off", caller, true},
		"never, and there is no parent": {"parentbased_always_off", "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			traces, exporter := recording(t, test.sampler)
			m := traced()
			m.Trace = test.parent
			told := traces.Attempt(m, 0)
			traces.attemptFinished(engine.AttemptReport{Message: m, State: posthaste.StateDelivered})
			if got := strings.HasSuffix(string(told), "-01"); got != test.want {
				t.Errorf("told %s, want sampled %v", told, test.want)
			}
			if got := len(exporter.GetSpans()) == 1; got != test.want {
				t.Errorf("exported %v, want %v", got, test.want)
			}
		})
	}
}

// TestSpansKeepSecrets checks that no more of a destination is in a span than its host.
func TestSpansKeepSecrets(t *testing.T) {
	traces, exporter := recording(t, "")
	traces.Published(traced(), "")
	for _, attribute := range exporter.GetSpans()[0].Attributes {
		if strings.Contains(attribute.Value.String(), "leak") {
			t.Errorf("%s is %s", attribute.Key, attribute.Value.String())
		}
	}
}

func TestTracesFromEnvironment(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tests := map[string]struct {
		environment map[string]string
		on          bool
		wrong       string // what the error names
	}{
		"off unless asked for":  {nil, false, ""},
		"a collector":           {map[string]string{endpoint: "http://127.0.0.1:1"}, true, ""},
		"one for traces":        {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, true, ""},
		"the default one":       {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, ""},
		"none":                  {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}, false, ""},
		"disabled":              {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "TRUE"}, false, ""},
		"the protocol":          {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, true, ""},
		"the other protocol":    {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, true, ""},
		"its default collector": {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, true, ""},
		"an unknown protocol":   {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, false, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		"another exporter":      {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, "OTEL_TRACES_EXPORTER"},
		"a part":                {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": ".1"}, true, ""},
		"an unknown sampler":    {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER": "some"}, false, "OTEL_TRACES_SAMPLER"},
		"more than all of them": {map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER_ARG": "2"}, false, "OTEL_TRACES_SAMPLER_ARG"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			exporter, err := NewExporter(t.Context(), "test", slog.New(slog.DiscardHandler), func(name string) string { return test.environment[name] })
			if err != nil {
				t.Fatal(err)
			}
			traces, err := exporter.Traces(t.Context())
			if checked := CheckExport(func(name string) string { return test.environment[name] }); (checked != nil) != (err != nil) {
				t.Errorf("checked: %v, but then: %v", checked, err)
			}
			switch {
			case test.wrong != "":
				if posthaste.ErrorCode(err) != posthaste.CodeInvalid || !strings.HasPrefix(err.Error(), test.wrong+" ") {
					t.Errorf("error %v, want one about %s", err, test.wrong)
				}
			case err != nil:
				t.Error(err)
			case (traces != nil) != test.on:
				t.Errorf("on: %v, want %v", traces != nil, test.on)
			}
			if traces != nil {
				_ = traces.Stop(t.Context())
			}
		})
	}
}

// TestMetricsAndLogsAreSent reads what a collector is sent: a metric, and a line that is also written.
func TestMetricsAndLogsAreSent(t *testing.T) {
	sent := make(chan string, 16)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		text, _ := io.ReadAll(body)
		sent <- r.URL.Path + " " + string(text)
	}))
	defer collector.Close()
	environment := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL) // the exporters read it themselves
	var written strings.Builder
	lines := slog.New(slog.NewTextHandler(&written, nil))
	exporter, err := NewExporter(t.Context(), "test", lines, func(name string) string { return environment[name] })
	if err != nil {
		t.Fatal(err)
	}
	logger, err := exporter.Logs(t.Context(), lines)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	RegisterBuild(registry, "1.2.3")
	if on, err := exporter.Metrics(t.Context(), registry); !on || err != nil {
		t.Fatalf("metrics are sent: %v, %v", on, err)
	}
	logger.With("host", "example.com").Info("attempt.finished")
	logger.Debug("below the level")
	if err := exporter.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(sent)
	found := map[string]string{}
	for one := range sent {
		path, text, _ := strings.Cut(one, " ")
		found[path] += text
	}
	for path, texts := range map[string][]string{"/v1/metrics": {"posthaste_build_info", "1.2.3"}, "/v1/logs": {"attempt.finished", "example.com"}} {
		for _, text := range texts {
			if !strings.Contains(found[path], text) {
				t.Errorf("%s was not sent %q", path, text)
			}
		}
	}
	if strings.Contains(found["/v1/logs"], "below the level") || !strings.Contains(written.String(), "attempt.finished") {
		t.Errorf("what is sent is not what is written: %s", written.String())
	}
}

// TestNoTracesAreFree checks that a server without a collector does nothing for them.
func TestNoTracesAreFree(t *testing.T) {
	var traces *Traces
	report := engine.AttemptReport{Message: traced(), State: posthaste.StateDelivered}
	if allocated := testing.AllocsPerRun(100, func() { traces.attemptFinished(report) }); allocated > 0 {
		t.Errorf("%v allocations for an attempt", allocated)
	}
}
