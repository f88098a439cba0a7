package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"posthaste"
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
	return true, unmarshal("the body", body, into)
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
	return unmarshalKnown("the body", body, into, accepted)
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

// unmarshalKnown is unmarshal without unknown members, which may be misspelt (contract, decision
// 16).
func unmarshalKnown(what string, data []byte, into any, accepted string) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err != nil {
		if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			return posthaste.Invalidf("%.100s is not known in %s: %s", name, what, accepted)
		}
		return unmarshal(what, data, into)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return unmarshal(what, data, into) // trailing data
	}
	return nil
}

// unmarshal decodes JSON. what names it in errors.
func unmarshal(what string, data []byte, into any) error {
	err := json.Unmarshal(data, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field != "" {
			what = wrong.Field
		}
		return posthaste.Invalidf("%.100s is a JSON %.100s, %s is expected", what, wrong.Value, describeKind(wrong.Type.Kind()))
	}
	if err != nil {
		return posthaste.Invalidf("%s is not valid JSON: %v", what, err)
	}
	return nil
}

// describeKind returns the JSON name of a Go kind.
func describeKind(kind reflect.Kind) string {
	switch kind {
	case reflect.Int:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "an array"
	default:
		return "an object"
	}
}

// texts reads a string or an array of strings; name is for errors. Numbers and booleans count as
// written, null as nothing. The result is never nil.
func texts(name string, raw json.RawMessage) ([]string, error) {
	var items []json.RawMessage
	if raw[0] != '[' {
		items = append(items, raw)
	} else if err := unmarshal(name, raw, &items); err != nil {
		return nil, err
	}
	list := make([]string, 0, len(items))
	for _, item := range items {
		switch item[0] {
		case '"':
			var text string
			if err := unmarshal(name, item, &text); err != nil {
				return nil, err
			}
			list = append(list, text)
		case '[', '{':
			return nil, posthaste.Invalidf("%.100s is %.100s, a string or an array of strings is expected", name, raw)
		case 'n': // null
		default:
			list = append(list, string(item))
		}
	}
	return list, nil
}
