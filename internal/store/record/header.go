package record

import (
	"net/http"
	"slices"
)

// header is an http.Header as name, value, name, value, with ascending names, so that it has one
// encoding. Names without values are omitted.
type header []string

func newHeader(h http.Header) header {
	if len(h) == 0 {
		return nil
	}
	var room [16]string // enough for most, and on the stack
	names := room[:0]
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	flat := make(header, 0, 2*len(h))
	for _, name := range names {
		for _, value := range h[name] {
			flat = append(flat, name, value)
		}
	}
	return flat
}

// restore returns nil for an empty header.
func (flat header) restore() (http.Header, error) {
	if len(flat) == 0 {
		return nil, nil
	}
	if len(flat)%2 != 0 {
		return nil, errHeader
	}
	h, values := make(http.Header, len(flat)/2), make([]string, len(flat)/2)
	name, first := flat[0], 0
	for i := range values {
		if flat[2*i] < name {
			return nil, errHeader
		}
		if flat[2*i] > name {
			name, first = flat[2*i], i
		}
		values[i] = flat[2*i+1]
		h[name] = values[first : i+1 : i+1]
	}
	return h, nil
}
