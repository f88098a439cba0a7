package api

import (
	"context"
	"encoding/json"
	"net/http"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/engine"
)

// intake decodes what one request publishes. It reads each URL group once.
type intake struct {
	decoder  wire.Decoder
	groups   URLGroups
	user     string
	callerIP string
	maxBody  int64
	maxStep  int64                  // for steps of runs
	trace    posthaste.TraceContext // of the request
	defaults map[string]http.Header // by group
}

func (a *api) newIntake(r *request) *intake {
	trace, _ := posthaste.ParseTraceContext(r.Header.Get("Traceparent"))
	return &intake{
		decoder:  a.decoder,
		groups:   a.options.Engine,
		user:     r.user,
		callerIP: a.callerIP(r.Request),
		maxBody:  a.options.MaxBody,
		maxStep:  a.options.MaxStep,
		trace:    trace,
	}
}

// publication reads a publication without body and queue. It returns an Error with CodeNotFound
// for an unknown URL group, CodeInvalid for a bad value.
func (i *intake) publication(ctx context.Context, destinationText string, c wire.Controls, in wire.Incoming) (engine.Publication, error) {
	destination, isGroup, err := i.decoder.Destination(destinationText)
	if err != nil {
		return engine.Publication{}, err
	}
	if isGroup {
		if c, err = i.withGroupDefaults(ctx, destination, c); err != nil {
			return engine.Publication{}, err
		}
	}
	p, err := i.decoder.Publication(c, in)
	p.Destination, p.CallerIP = destination, i.callerIP
	return p, err
}

// incoming returns the headers of a batch item.
func (i *intake) incoming(header http.Header) wire.Incoming {
	return wire.Incoming{Header: header, OuterTrace: i.trace}
}

// body returns the body of a batch item, up to limit bytes.
func (i *intake) body(raw json.RawMessage, limit int64) ([]byte, error) {
	body, err := wire.JSONBody(raw)
	if int64(len(body)) > limit {
		return nil, tooLarge(limit)
	}
	return body, err
}

// withGroupDefaults adds a URL group's default headers, which all else overrides (contract,
// U-41).
func (i *intake) withGroupDefaults(ctx context.Context, name string, c wire.Controls) (wire.Controls, error) {
	header, known := i.defaults[name]
	if !known {
		group, err := i.groups.URLGroup(ctx, i.user, name)
		if err != nil {
			return wire.Controls{}, orNoURLGroup(err, name)
		}
		header = group.Headers
		if i.defaults == nil {
			i.defaults = make(map[string]http.Header)
		}
		i.defaults[name] = header
	}
	if len(header) == 0 {
		return c, nil
	}
	return c.WithDefaults(header)
}
