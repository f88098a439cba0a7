package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/binary"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"posthaste"
)

// publication is the number of the span of a publication, among those of the attempts.
const publication = -1

// spanID returns the id of a span of a message.
func spanID(message posthaste.MessageID, number int) trace.SpanID {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(message[:], uint64(number)))
	var id trace.SpanID
	copy(id[:], sum[:])
	return id
}

// spanKey is the key of the context of the span that is about to be started.
type spanKey struct{}

// idGenerator gives spans the ids that their contexts have.
type idGenerator struct{}

// NewIDs returns those of a span that begins a trace.
func (idGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	span, _ := ctx.Value(spanKey{}).(trace.SpanContext)
	return span.TraceID(), span.SpanID()
}

// NewSpanID returns that of a span within a trace.
func (idGenerator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	span, _ := ctx.Value(spanKey{}).(trace.SpanContext)
	return span.SpanID()
}

// read returns the context that a text is, an invalid one for none.
func read(text posthaste.TraceContext) trace.SpanContext {
	header := propagation.MapCarrier{"traceparent": string(text)}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), header))
}

// written returns the text of a context.
func written(c trace.SpanContext) posthaste.TraceContext {
	return posthaste.TraceContext("00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String())
}
