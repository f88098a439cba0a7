package record

import (
	"slices"
	"sync"

	"posthaste"
)

// response is the stored form of a posthaste.Response.
type response struct {
	Status    int    `cbor:"1,keyasint,omitempty"`
	Header    header `cbor:"2,keyasint,omitempty"`
	Body      body   `cbor:"3,keyasint,omitempty"`
	Truncated bool   `cbor:"4,keyasint,omitempty"`
}

// AppendResponse appends the record of a response to dst.
func AppendResponse(dst []byte, r *posthaste.Response) []byte {
	return encode(slices.Grow(dst, len(r.Body)+usualOverhead), &response{
		Status:    r.Status,
		Header:    newHeader(r.Header),
		Body:      r.Body,
		Truncated: r.Truncated,
	})
}

// DecodeResponse reads what AppendResponse wrote. Empty bodies and headers come
// back as nil.
func DecodeResponse(data []byte) (*posthaste.Response, error) {
	r := new(posthaste.Response)
	if err := decodeResponse(r, &parts{}, data); err != nil {
		return nil, err
	}
	return r, nil
}

// decodedResponses are records to decode responses into, as decodedMessages are for messages.
var decodedResponses = sync.Pool{New: func() any { return new(response) }}

// decodeResponse decodes a response with as much of the memory as it needs.
func decodeResponse(r *posthaste.Response, memory *parts, data []byte) (err error) {
	rec := decodedResponses.Get().(*response)
	defer func() {
		*rec = response{Header: rec.Header.emptied()} // all else is the response's
		decodedResponses.Put(rec)
	}()
	rec.Body = memory.body[:0]
	if err := decode(data, rec); err != nil {
		return err
	}
	*r = posthaste.Response{Status: rec.Status, Truncated: rec.Truncated}
	memory.body = rec.Body
	if len(rec.Body) > 0 {
		r.Body = slices.Clip(rec.Body)
	}
	r.Header, err = rec.Header.restoreInto(memory)
	return err
}
