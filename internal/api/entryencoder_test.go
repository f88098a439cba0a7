package api

import (
	"bytes"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// TestSharedMessages encodes a message once, changes it, which nobody else may, and looks
// in which cases it is shown as it was.
func TestSharedMessages(t *testing.T) {
	form := entryForm{cancelled: posthaste.StateCancelled, bodyLimit: mostShared}
	tests := map[string]struct {
		body  int // bytes
		form  entryForm
		later func(*sharedMessages)
		want  bool
	}{
		"at once":                {10, form, func(*sharedMessages) {}, true},
		"in another form":        {10, entryForm{cancelled: form.cancelled, bodyLimit: 3}, func(*sharedMessages) {}, false},
		"a large one":            {mostShared / 64, form, func(*sharedMessages) {}, false},
		"after some others":      {10, form, shareOthers(mostShared), true},
		"after too many others":  {10, form, shareOthers(2*mostShared + 2048), false},
		"in nobody else's sight": {10, form, nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			shared := &sharedMessages{}
			if test.later == nil {
				shared, test.later = nil, func(*sharedMessages) {}
			}
			m := &posthaste.Message{URL: "https://a.example", Body: make([]byte, test.body)}
			show := func(form entryForm) []byte {
				e := newEntryEncoder(form)
				defer e.release()
				e.shared = shared
				return bytes.Clone(e.encode(store.NewEntry(posthaste.Event{}, m)))
			}
			show(form)
			test.later(shared)
			m.URL = "https://b.example"
			if got := bytes.Contains(show(test.form), []byte("https://a.example")); got != test.want {
				t.Errorf("shown as it was: %v, want %v", got, test.want)
			}
		})
	}
}

// shareOthers keeps other messages of so many bytes together.
func shareOthers(size int) func(*sharedMessages) {
	return func(s *sharedMessages) {
		const each = 1024
		for range size / each {
			s.keep(&posthaste.Message{}, entryForm{}, make([]byte, each))
		}
	}
}

// TestEntryEncoderForgets encodes the entry of a message, and on the next page that of one
// which has come to lie at the same place in memory.
func TestEntryEncoderForgets(t *testing.T) {
	form := entryForm{cancelled: posthaste.StateCancelled}
	for _, body := range []int{0, mostKeptEncoded} {
		form.bodyLimit = body
		m := &posthaste.Message{URL: "https://a.example", Body: make([]byte, body)}
		entry := store.Entry{Event: posthaste.Event{Position: posthaste.FirstPosition(time.UnixMilli(1))}, Message: m}
		e := newEntryEncoder(form)
		e.encode(entry)
		e.release()
		*m = posthaste.Message{URL: "https://b.example"}
		e = newEntryEncoder(form)
		if line := e.encode(entry); !bytes.Contains(line, []byte("https://b.example")) {
			t.Errorf("a page shows a message of the page before: %s", line)
		}
		e.release()
	}
}
