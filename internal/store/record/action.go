package record

import (
	"net/http"
	"net/url"

	"posthaste"
)

// action is the stored form of a posthaste.BulkAction. Failures alternate id and error.
type action struct {
	Kind        string   `cbor:"1,keyasint,omitempty"`
	Filter      header   `cbor:"2,keyasint,omitempty"`
	Header      header   `cbor:"3,keyasint,omitempty"`
	Total       int      `cbor:"4,keyasint,omitempty"`
	Processed   int      `cbor:"5,keyasint,omitempty"`
	Failed      int      `cbor:"6,keyasint,omitempty"`
	Failures    []string `cbor:"7,keyasint,omitempty"`
	Cursor      string   `cbor:"8,keyasint,omitempty"`
	CreatedAt   int64    `cbor:"9,keyasint,omitempty"`
	CompletedAt int64    `cbor:"10,keyasint,omitempty"`
	CallerIP    string   `cbor:"11,keyasint,omitempty"`
	Cancelled   bool     `cbor:"12,keyasint,omitempty"`
}

// AppendAction appends the record of a bulk action without id and user.
func AppendAction(dst []byte, a *posthaste.BulkAction) []byte {
	rec := action{
		Kind:        string(a.Kind),
		Filter:      newHeader(http.Header(a.Filter)),
		Header:      newHeader(a.Header),
		Total:       a.Total,
		Processed:   a.Processed,
		Failed:      a.Failed,
		Cursor:      a.Cursor,
		CreatedAt:   toMilli(a.CreatedAt),
		CompletedAt: toMilli(a.CompletedAt),
		CallerIP:    a.CallerIP,
		Cancelled:   a.Cancelled,
	}
	for _, failure := range a.Failures {
		rec.Failures = append(rec.Failures, failure.ID, failure.Error)
	}
	return encode(dst, &rec)
}

// DecodeAction decodes a record of AppendAction.
func DecodeAction(user, id string, data []byte) (*posthaste.BulkAction, error) {
	var rec action
	if err := decode(data, &rec); err != nil {
		return nil, err
	}
	if len(rec.Failures)%2 != 0 {
		return nil, errFailures
	}
	filter, err := rec.Filter.restore()
	if err != nil {
		return nil, err
	}
	overrides, err := rec.Header.restore()
	if err != nil {
		return nil, err
	}
	a := &posthaste.BulkAction{
		ID:          id,
		User:        user,
		Kind:        posthaste.ActionKind(rec.Kind),
		Filter:      url.Values(filter),
		Header:      overrides,
		Total:       rec.Total,
		Processed:   rec.Processed,
		Failed:      rec.Failed,
		Cursor:      rec.Cursor,
		CreatedAt:   fromMilli(rec.CreatedAt),
		CompletedAt: fromMilli(rec.CompletedAt),
		CallerIP:    rec.CallerIP,
		Cancelled:   rec.Cancelled,
	}
	for i := 0; i < len(rec.Failures); i += 2 {
		a.Failures = append(a.Failures, posthaste.ActionFailure{ID: rec.Failures[i], Error: rec.Failures[i+1]})
	}
	return a, nil
}
