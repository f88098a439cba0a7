package api

import (
	"bytes"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

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
