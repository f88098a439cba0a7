package record

import (
	"slices"

	"posthaste"
)

// response is the stored form of a posthaste.Response.
type response struct {
	Status    int    `cbor:"1,keyasint,omitempty"`
	Header    header `cbor:"2,keyasint,omitempty"`
	Body      []byte `cbor:"3,keyasint,omitempty"`
	Truncated bool   `cbor:"4,keyasint,omitempty"`
}

// AppendResponse appends the record of a response.
func AppendResponse(dst []byte, r *posthaste.Response) []byte {
	return encode(slices.Grow(dst, len(r.Body)+usualOverhead), &response{
		Status:    r.Status,
		Header:    newHeader(r.Header),
		Body:      r.Body,
		Truncated: r.Truncated,
	})
}

// DecodeResponse decodes a record of AppendResponse. Empty bodies and headers become nil.
func DecodeResponse(data []byte) (r *posthaste.Response, err error) {
	var rec response
	if q := newQuick(data); !q.response(&rec) {
		if rec, err = decodeAny[response](data); err != nil {
			return nil, err
		}
	}
	header, err := rec.Header.restore()
	if err != nil {
		return nil, err
	}
	r = &posthaste.Response{Status: rec.Status, Header: header, Truncated: rec.Truncated}
	if len(rec.Body) > 0 {
		r.Body = rec.Body
	}
	return r, nil
}
