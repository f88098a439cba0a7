package record

import (
	"bytes"
	"testing"

	"posthaste"
)

// What a decoder takes, it must have understood: encoding it and decoding that
// again changes nothing.

func FuzzDecodeMessage(f *testing.F) {
	f.Add(AppendMessage(nil, typical()))
	f.Add(AppendMessage(nil, fullMessage()))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeMessage(posthaste.MessageID{1}, "u", data)
		if err != nil {
			return
		}
		once := AppendMessage(nil, m)
		again, err := DecodeMessage(m.ID, m.User, once)
		if err != nil {
			t.Fatalf("cannot read what was written: %v", err)
		}
		if twice := AppendMessage(nil, again); !bytes.Equal(once, twice) {
			t.Errorf("stored form changed from %x to %x", once, twice)
		}
	})
}

func FuzzDecodeEvent(f *testing.F) {
	f.Add(AppendEvent(nil, &posthaste.Event{State: posthaste.StateError, Error: "refused"}))
	f.Fuzz(func(t *testing.T, data []byte) {
		event, err := DecodeEvent(data)
		if err != nil {
			return
		}
		once := AppendEvent(nil, &event)
		again, err := DecodeEvent(once)
		if err != nil {
			t.Fatalf("cannot read what was written: %v", err)
		}
		if twice := AppendEvent(nil, &again); !bytes.Equal(once, twice) {
			t.Errorf("stored form changed from %x to %x", once, twice)
		}
	})
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add(AppendResponse(nil, &posthaste.Response{Status: 500, Body: []byte("no"), Truncated: true}))
	f.Fuzz(func(t *testing.T, data []byte) {
		response, err := DecodeResponse(data)
		if err != nil {
			return
		}
		once := AppendResponse(nil, response)
		again, err := DecodeResponse(once)
		if err != nil {
			t.Fatalf("cannot read what was written: %v", err)
		}
		if twice := AppendResponse(nil, again); !bytes.Equal(once, twice) {
			t.Errorf("stored form changed from %x to %x", once, twice)
		}
	})
}
