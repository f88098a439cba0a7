package record

import (
	"net/http"
	"slices"
)

// header is an http.Header as a flat list of name, value, name, value, with the
// names ascending, so that one header has one stored form. A name without values
// is left out.
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

// emptied returns the memory of a header for another one, without its texts. That of a very
// long one is not kept.
func (flat header) emptied() header {
	clear(flat)
	if cap(flat) > 2*mostKeptValues {
		return nil
	}
	return flat[:0]
}

// restore returns nil for an empty header.
func (flat header) restore() (http.Header, error) { return flat.restoreInto(&parts{}) }

// restoreInto is restore with as much of the memory as it needs.
func (flat header) restoreInto(memory *parts) (http.Header, error) {
	if len(flat) == 0 {
		return nil, nil
	}
	if len(flat)%2 != 0 {
		return nil, errHeader
	}
	if memory.header == nil {
		memory.header = make(http.Header, len(flat)/2)
	}
	memory.values = slices.Grow(memory.values[:0], len(flat)/2)[:len(flat)/2]
	h, values := memory.header, memory.values
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
