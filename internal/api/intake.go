package api

import (
	"encoding/json"
	"net/http"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/engine"
)

// intake decodes what one request publishes. It reads each URL group once.
type intake struct {
	api      *api
	request  *request
	callerIP string
	defaults map[string]http.Header // by group
}

func (a *api) newIntake(r *request) *intake {
	return &intake{api: a, request: r, callerIP: a.callerIP(r.Request), defaults: map[string]http.Header{}}
}

// publication reads a publication without body and queue. It returns an Error with CodeNotFound
// for an unknown URL group, CodeInvalid for a bad value.
func (i *intake) publication(destinationText string, c wire.Controls, in wire.Incoming) (engine.Publication, error) {
	destination, isGroup, err := i.api.decoder.Destination(destinationText)
	if err != nil {
		return engine.Publication{}, err
	}
	if isGroup {
		if c, err = i.withGroupDefaults(destination, c); err != nil {
			return engine.Publication{}, err
		}
	}
	p, err := i.api.decoder.Publication(c, in)
	p.Destination, p.CallerIP = destination, i.callerIP
	return p, err
}

// incoming returns the headers of a batch item.
func (i *intake) incoming(header http.Header) wire.Incoming {
	trace, _ := posthaste.ParseTraceContext(i.request.Header.Get("Traceparent"))
	return wire.Incoming{Header: header, OuterTrace: trace}
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
func (i *intake) withGroupDefaults(name string, c wire.Controls) (wire.Controls, error) {
	header, known := i.defaults[name]
	if !known {
		group, err := i.api.options.Engine.URLGroup(i.request.Context(), i.request.user, name)
		if err != nil {
			return wire.Controls{}, orNoURLGroup(err, name)
		}
		header = group.Headers
		i.defaults[name] = header
	}
	if len(header) == 0 {
		return c, nil
	}
	return c.WithDefaults(header)
}
