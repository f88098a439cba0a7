package record

import (
	"maps"
	"net/http"
	"slices"
)

// header is an http.Header as a flat list of name, value, name, value, with the
// names ascending: a list is decoded in half the time of a map, and one header
// has one form. A name without values is left out.
type header []string

func newHeader(h http.Header) header {
	if len(h) == 0 {
		return nil
	}
	flat := make(header, 0, 2*len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			flat = append(flat, name, value)
		}
	}
	return flat
}

// restore returns nil for an empty header.
func (flat header) restore() (http.Header, error) {
	switch {
	case len(flat) == 0:
		return nil, nil
	case len(flat)%2 != 0:
		return nil, errHeader
	}
	h := make(http.Header, len(flat)/2)
	for i := 0; i < len(flat); i += 2 {
		h[flat[i]] = append(h[flat[i]], flat[i+1])
	}
	return h, nil
}
