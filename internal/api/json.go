package api

import (
	"encoding/json"
	"maps"
	"slices"

	"posthaste"
	"posthaste/internal/api/wire"
)

// maxJSON limits JSON bodies other than messages.
const maxJSON = 1 << 20

// decodeJSON decodes the body, whatever its Content-Type, and reports whether there was one. Bad
// JSON is an Error with CodeInvalid.
func (r *request) decodeJSON(into any) (given bool, err error) {
	body, err := r.readBody(maxJSON)
	if err != nil || body == nil {
		return false, err
	}
	return true, wire.Unmarshal("the body", body, into)
}

// requireJSON is decodeJSON for a required body.
func (r *request) requireJSON(into any) error {
	given, err := r.decodeJSON(into)
	if err == nil && !given {
		return errNoBody
	}
	return err
}

// requireKnown is requireJSON without unknown members; accepted lists the known ones.
func (r *request) requireKnown(into any, accepted string) error {
	body, err := r.readBody(maxJSON)
	if err != nil {
		return err
	}
	if body == nil {
		return errNoBody
	}
	return wire.UnmarshalKnown("the body", body, into, accepted)
}

// refuseBody returns an error about members of a body without meaning.
func (r *request) refuseBody() error {
	var body map[string]json.RawMessage
	if _, err := r.decodeJSON(&body); err != nil || len(body) == 0 {
		return err
	}
	return posthaste.Invalidf("%.100q is not known in the body: no member is accepted here", slices.Sorted(maps.Keys(body))[0])
}

var errNoBody = posthaste.Invalidf("the body is empty, a JSON object is expected")
