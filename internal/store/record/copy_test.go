package record_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/store/record"
)

func TestPlaceIsReadAsItWasWritten(t *testing.T) {
	tests := map[string]record.Place{
		"delivered":                  {State: posthaste.StateDelivered, Retried: 2},
		"waits":                      {State: posthaste.StateCreated, Order: 1 << 40, DueAt: time.UnixMilli(1_800_000_000_000)},
		"waits for a retry":          {State: posthaste.StateRetry, Retried: 7, Order: 1, DueAt: time.UnixMilli(-1)},
		"to be cancelled":            {State: posthaste.StateCreated, Order: 2, DueAt: time.UnixMilli(0), CancelRequested: true},
		"ended before its callbacks": {State: posthaste.StateFailed, Retried: 1, Order: 3, DueAt: time.UnixMilli(5), Callbacks: 300},
	}
	for name, place := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := record.DecodePlace(record.AppendPlace(nil, &place))
			if diff := cmp.Diff(place, got); err != nil || diff != "" {
				t.Errorf("%v (-written +read):\n%s", err, diff)
			}
		})
	}
}

func FuzzDecodePlace(f *testing.F) {
	f.Add(record.AppendPlace(nil, &record.Place{State: posthaste.StateRetry, Retried: 7, Order: 9, DueAt: time.UnixMilli(1), Callbacks: 2}))
	f.Add(record.AppendPlace(nil, &record.Place{State: posthaste.StateDelivered}))
	f.Fuzz(func(t *testing.T, data []byte) {
		place, err := record.DecodePlace(data)
		if err != nil {
			return
		}
		again, err := record.DecodePlace(record.AppendPlace(nil, &place))
		if err != nil || !cmp.Equal(place, again) {
			t.Errorf("%x is read as %+v, and that as %+v, %v", data, place, again, err)
		}
	})
}

func FuzzParts(f *testing.F) {
	f.Add(record.AppendParts(nil, []byte("a"), nil, []byte("bc")), 3)
	f.Add([]byte{5, 1}, 1)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		parts, err := record.Parts(data, n&7)
		if err != nil {
			return
		}
		again, err := record.Parts(record.AppendParts(nil, parts...), n&7)
		if err != nil || !cmp.Equal(parts, again, cmp.Comparer(bytes.Equal)) {
			t.Errorf("%x has the parts %x, and those joined %x, %v", data, parts, again, err)
		}
	})
}

func FuzzDecodeEventItem(f *testing.F) {
	id := posthaste.MessageID{1, 2, 3}
	event := record.AppendEvent(nil, &posthaste.Event{State: posthaste.StateError, Error: "refused"})
	response := record.AppendResponse(nil, &posthaste.Response{Status: 500, Body: []byte("no")})
	f.Add(record.AppendParts(nil, id[:], event, response))
	f.Add(record.AppendParts(nil, id[:], event, nil))
	f.Add(record.AppendParts(nil, id[1:], event, nil))
	f.Fuzz(func(t *testing.T, value []byte) {
		event, err := record.DecodeEventItem(7, value)
		if err != nil {
			return
		}
		id, err := record.EventItemMessage(value)
		if err != nil || event.MessageID != id || event.Position != 7 {
			t.Errorf("%x is an event of %s at %d, and its message is %s, %v", value, event.MessageID, event.Position, id, err)
		}
	})
}

func FuzzDecodeMessageItem(f *testing.F) {
	id := posthaste.MessageID{1, 2, 3}
	message := record.AppendMessage(nil, &posthaste.Message{ID: id, User: "u", URL: "https://example.com"})
	place := record.AppendPlace(nil, &record.Place{State: posthaste.StateDelivered})
	f.Add(id[:], record.AppendParts(nil, message, place))
	f.Add(id[1:], record.AppendParts(nil, message, place))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		m, data, _, err := record.DecodeMessageItem("u", key, value)
		if err != nil {
			return
		}
		again, err := record.DecodeMessage(m.ID, "u", data)
		if err != nil || !bytes.Equal(m.ID[:], key) || !cmp.Equal(m, again) {
			t.Errorf("%x, %x is read as %+v, and its record as %+v, %v", key, value, m, again, err)
		}
	})
}
