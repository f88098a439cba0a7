package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"posthaste"
)

// MaxHeader limits the headers of a request, and of each message of a batch, in bytes.
const MaxHeader = 256 << 10

// UnmarshalKnown is Unmarshal without unknown members, which may be misspelt (contract, decision
// 16).
func UnmarshalKnown(what string, data []byte, into any, accepted string) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err != nil {
		if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			return posthaste.Invalidf("%.100s is not known in %s: %s", name, what, accepted)
		}
		return Unmarshal(what, data, into)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return Unmarshal(what, data, into) // trailing data
	}
	return nil
}

// Unmarshal decodes JSON. what names it in errors.
func Unmarshal(what string, data []byte, into any) error {
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

// Texts reads a string or an array of strings; name is for errors. Numbers and booleans count as
// written, null as nothing. The result is never nil.
func Texts(name string, raw json.RawMessage) ([]string, error) {
	var items []json.RawMessage
	if raw[0] != '[' {
		items = append(items, raw)
	} else if err := Unmarshal(name, raw, &items); err != nil {
		return nil, err
	}
	list := make([]string, 0, len(items))
	for _, item := range items {
		switch item[0] {
		case '"':
			var text string
			if err := Unmarshal(name, item, &text); err != nil {
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

// headerSize returns the bytes of a header.
func headerSize(header http.Header) (size int) {
	for name, values := range header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

// JSONBody returns the text of a JSON string, or other JSON as it is (contract, U-20); nil if
// empty.
func JSONBody(raw json.RawMessage) ([]byte, error) {
	switch {
	case len(raw) == 0 || string(raw) == "null" || string(raw) == `""`:
		return nil, nil
	case raw[0] == '"':
		var text string
		err := Unmarshal("body", raw, &text)
		return []byte(text), err
	}
	return raw, nil
}

// JSONHeader reads headers whose values are strings or arrays of strings. It rejects names and
// values that are invalid in HTTP, and more than MaxHeader bytes; what begins that error. The
// same values under two spellings of a name, as some SDKs send them, count once.
func JSONHeader(what string, fields map[string]json.RawMessage) (http.Header, error) {
	header := make(http.Header, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !posthaste.IsHeaderName(name) {
			return nil, posthaste.Invalidf("%.100q is not the name of a header", name)
		}
		values, err := Texts(name, fields[name])
		if err != nil {
			return nil, err
		}
		for i, value := range values {
			if !posthaste.IsHeaderValue(value) {
				return nil, posthaste.Invalidf("the value of %s has a line break or another control character, "+
					"which headers cannot carry", name)
			}
			values[i] = posthaste.EncodeHeaderText(value)
		}
		if canonical := http.CanonicalHeaderKey(name); !slices.Equal(header[canonical], values) {
			header[canonical] = append(header[canonical], values...)
		}
	}
	if size := headerSize(header); size > MaxHeader {
		return nil, posthaste.Errorf(posthaste.CodeTooLarge, "%s have %d bytes, at most %d are accepted", what, size, MaxHeader)
	}
	return header, nil
}
