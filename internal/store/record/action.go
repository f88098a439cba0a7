package record

import (
	"net/http"
	"time"

	"posthaste"
)

// action is the stored form of a posthaste.BulkAction. Failures alternate id and error.
type action struct {
	Kind        string             `cbor:"1,keyasint,omitempty"`
	Filter      posthaste.Filter   `cbor:"2,keyasint"`
	Overrides   overrides          `cbor:"3,keyasint"`
	Total       int                `cbor:"4,keyasint,omitempty"`
	Processed   int                `cbor:"5,keyasint,omitempty"`
	Failed      int                `cbor:"6,keyasint,omitempty"`
	Failures    []string           `cbor:"7,keyasint,omitempty"`
	Low         posthaste.Position `cbor:"8,keyasint,omitempty"`
	CreatedAt   int64              `cbor:"9,keyasint,omitempty"`
	CompletedAt int64              `cbor:"10,keyasint,omitempty"`
	CallerIP    string             `cbor:"11,keyasint,omitempty"`
	Cancelled   bool               `cbor:"12,keyasint,omitempty"`
	High        posthaste.Position `cbor:"13,keyasint,omitempty"`
	Live        string             `cbor:"14,keyasint,omitempty"`
	Asked       header             `cbor:"15,keyasint,omitempty"`
	Messages    [][]byte           `cbor:"16,keyasint,omitempty"` // of the filter
	Runs        []int64            `cbor:"17,keyasint,omitempty"` // of the filter: when they were created
}

// overrides is the stored form of posthaste.Overrides.
type overrides struct {
	Delay     time.Duration `cbor:"1,keyasint,omitempty"`
	NotBefore *int64        `cbor:"2,keyasint,omitempty"` // 0 is not none
	Settings  settings      `cbor:"3,keyasint"`
}

// AppendAction appends the record of a bulk action without id and user.
func AppendAction(dst []byte, a *posthaste.BulkAction) []byte {
	rec := action{
		Kind:        string(a.Kind),
		Filter:      a.Filter,
		Messages:    newIDs(a.Filter.MessageIDs),
		Overrides:   overrides{Delay: a.Overrides.Delay, Settings: newSettings(&a.Overrides.Settings)},
		Asked:       newHeader(http.Header(a.Asked)),
		Total:       a.Total,
		Processed:   a.Processed,
		Failed:      a.Failed,
		Low:         a.Cursor.Low,
		High:        a.Cursor.High,
		Live:        a.Cursor.Live,
		CreatedAt:   toMilli(a.CreatedAt),
		CompletedAt: toMilli(a.CompletedAt),
		CallerIP:    a.CallerIP,
		Cancelled:   a.Cancelled,
	}
	for _, at := range a.Filter.CreatedAts {
		rec.Runs = append(rec.Runs, at.UnixMilli())
	}
	if at := a.Overrides.NotBefore; !at.IsZero() {
		rec.Overrides.NotBefore = new(at.UnixMilli())
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
	a := &posthaste.BulkAction{
		ID:          id,
		User:        user,
		Kind:        posthaste.ActionKind(rec.Kind),
		Filter:      rec.Filter,
		Overrides:   posthaste.Overrides{Delay: rec.Overrides.Delay},
		Total:       rec.Total,
		Processed:   rec.Processed,
		Failed:      rec.Failed,
		Cursor:      posthaste.ActionCursor{Low: rec.Low, High: rec.High, Live: rec.Live},
		CreatedAt:   fromMilli(rec.CreatedAt),
		CompletedAt: fromMilli(rec.CompletedAt),
		CallerIP:    rec.CallerIP,
		Cancelled:   rec.Cancelled,
	}
	var err error
	if a.Filter.MessageIDs, err = restoreIDs(rec.Messages); err != nil {
		return nil, err
	}
	for _, at := range rec.Runs {
		a.Filter.CreatedAts = append(a.Filter.CreatedAts, time.UnixMilli(at))
	}
	if at := rec.Overrides.NotBefore; at != nil {
		a.Overrides.NotBefore = time.UnixMilli(*at)
	}
	for i := 0; i < len(rec.Failures); i += 2 {
		a.Failures = append(a.Failures, posthaste.ActionFailure{ID: rec.Failures[i], Error: rec.Failures[i+1]})
	}
	asked, err := rec.Asked.restore()
	if err != nil {
		return nil, err
	}
	a.Asked = asked
	return a, rec.Overrides.Settings.restore(&a.Overrides.Settings)
}
