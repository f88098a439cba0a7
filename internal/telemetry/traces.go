package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"posthaste"
	"posthaste/internal/engine"
)

// Traces makes spans of publications and attempts and exports them. Make one with
// NewTraces.
//
// The ids of spans follow from the id of their message and the number of the attempt,
// so that any code that needs the context of a span can derive it without asking, after a crash
// and on another node too: the attempt that is sent out, the callback that reports it,
// the attempt that repeats it.
type Traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	sampler  sdk.Sampler
}

var _ engine.Traces = (*Traces)(nil)

// newTraces returns traces whose spans the processor takes.
func newTraces(sampler sdk.Sampler, options ...sdk.TracerProviderOption) *Traces {
	options = append(options, sdk.WithIDGenerator(idGenerator{}), sdk.WithSampler(sampler))
	provider := sdk.NewTracerProvider(options...)
	return &Traces{provider: provider, tracer: provider.Tracer("posthaste"), sampler: sampler}
}

// Stop exports the spans that were not yet, and makes no more.
func (t *Traces) Stop(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// Publish implements engine.Traces.
func (t *Traces) Publish(m *posthaste.Message) posthaste.TraceContext {
	return t.within(m, m.Trace, publication)
}

// Attempt implements engine.Traces.
func (t *Traces) Attempt(m *posthaste.Message, retried int) posthaste.TraceContext {
	return t.within(m, m.Trace, retried)
}

// within writes the context of a span of a message that is part of a context.
func (t *Traces) within(m *posthaste.Message, parent posthaste.TraceContext, number int) posthaste.TraceContext {
	return written(t.span(m, parent, number))
}

// span returns the context of a span. Without a parent it begins a trace, which has the
// id of the message.
func (t *Traces) span(m *posthaste.Message, parent posthaste.TraceContext, number int) trace.SpanContext {
	outer := read(parent)
	traceID := outer.TraceID()
	if !outer.IsValid() {
		traceID = trace.TraceID(m.ID)
	}
	decided := t.sampler.ShouldSample(sdk.SamplingParameters{
		ParentContext: trace.ContextWithRemoteSpanContext(context.Background(), outer),
		TraceID:       traceID,
	})
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID:    traceID,
		SpanID:     spanID(m.ID, number),
		TraceFlags: outer.TraceFlags().WithSampled(decided.Decision == sdk.RecordAndSample),
		Remote:     true,
	})
}

// start starts a span, of which all is known that follows from the message.
func (t *Traces) start(m *posthaste.Message, parent posthaste.TraceContext, number int, name string, options ...trace.SpanStartOption) trace.Span {
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), read(parent))
	ctx = context.WithValue(ctx, spanKey{}, t.span(m, parent, number))
	_, span := t.tracer.Start(ctx, name, append(options, trace.WithAttributes(attributes(m)...))...)
	return span
}

// Published implements engine.Traces.
func (t *Traces) Published(m *posthaste.Message, parent posthaste.TraceContext) {
	t.start(m, parent, publication, "publish",
		trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithTimestamp(m.CreatedAt),
	).End()
}

// attemptFinished makes the span of an attempt. One that was abandoned is made again,
// and has its span then.
func (t *Traces) attemptFinished(r engine.AttemptReport) {
	if t == nil || r.State == posthaste.StateActive {
		return
	}
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(r.StartedAt),
		trace.WithAttributes(attribute.Int("posthaste.retried", r.Retried), attribute.String("posthaste.state", string(r.State))),
	}
	if r.Retried > 0 {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: t.span(r.Message, r.Message.Trace, r.Retried-1)}))
	}
	span := t.start(r.Message, r.Message.Trace, r.Retried, attemptName(r.Message), options...)
	if r.Outcome.Response != nil {
		span.SetAttributes(attribute.Int("http.response.status_code", r.Outcome.Response.Status))
	}
	if r.Outcome.Class != posthaste.OutcomeDelivered {
		span.SetStatus(codes.Error, r.Outcome.Error)
	}
	span.End(trace.WithTimestamp(r.StartedAt.Add(max(r.Outcome.Duration, time.Microsecond))))
}

// attemptName says what an attempt delivers.
func attemptName(m *posthaste.Message) string {
	switch {
	case !m.SourceID.IsZero():
		return "callback"
	case m.Run == nil:
		return "deliver"
	default:
		return runSpanName(m, stepOf(m))
	}
}

// attributes are what each span of a message shows of it: as in log lines, no more
// of the destination than its host.
func attributes(m *posthaste.Message) []attribute.KeyValue {
	host, _ := posthaste.HostAndPath(m.URL)
	all := []attribute.KeyValue{
		attribute.String("posthaste.message_id", m.ID.String()),
		attribute.String("posthaste.user", m.User),
		attribute.String("server.address", host),
		attribute.String("http.request.method", m.Verb()),
	}
	for name, value := range map[string]string{
		"posthaste.queue": m.Queue, "posthaste.flow_key": m.FlowControl.Key,
		"posthaste.url_group": m.URLGroup, "posthaste.schedule_id": m.ScheduleID,
	} {
		if value != "" {
			all = append(all, attribute.String(name, value))
		}
	}
	if m.Run != nil {
		all = append(all, runAttributes(m)...)
	}
	return all
}
