package record

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"posthaste"
)

// What this package writes is read quickly: nothing but time would tell if it were not.
func TestQuickReadsWhatIsWritten(t *testing.T) {
	full := fullMessage()
	full.Run = &posthaste.RunLink{
		RunRef:   posthaste.RunRef{ID: "r", CreatedAt: full.CreatedAt, Position: posthaste.MaxPosition, URL: "u"},
		CallType: "step", Entry: 1, Features: 1, ListBytes: 100_000,
	}
	full.RetryDelay, full.Queue = strings.Repeat("1", 300), strings.Repeat("q", 70_000)
	full.NotBefore, full.Timeout = time.UnixMilli(-1), -time.Hour
	for _, m := range []*posthaste.Message{full, typical(), {}} {
		q := newQuick(AppendMessage(nil, m))
		if !q.message(new(message)) {
			t.Errorf("message %q is left to the library", m.URL)
		}
	}
	q := newQuick(AppendResponse(nil, &posthaste.Response{Status: 503, Header: full.Header, Body: []byte("no"), Truncated: true}))
	if !q.response(new(response)) {
		t.Error("a response is left to the library")
	}
	q = newQuick(AppendEvent(nil, &posthaste.Event{
		State: posthaste.StateError, Error: "no", NextDeliveryAt: full.NotBefore, Attempt: posthaste.Attempt{Status: 503, Took: time.Hour},
	}))
	if !q.event(new(event)) {
		t.Error("an event is left to the library")
	}
}

// What the library refuses is left to it, so that it is refused.
func TestQuickLeavesToTheLibrary(t *testing.T) {
	long := append([]byte{version, 0xa1, 0x02, 0x9a, 0x00, 0x40, 0x00, 0x01}, bytes.Repeat([]byte{0x60}, maxElements+1)...)
	for name, data := range map[string][]byte{
		"nothing": {}, "another version": {version + 1, 0xa0}, "a key twice": {version, 0xa2, 1, 1, 1, 1},
		"more than a record": {version, 0xa0, 0}, "an unknown field": {version, 0xa1, 0x18, 99, 1}, "half a record": {version, 0xa1, 1},
		"a null": {version, 0xa1, 3, 0xf6}, "a list that is too long": long,
	} {
		q := newQuick(data)
		if q.response(new(response)) {
			t.Errorf("%s: it was read", name)
		}
	}
}

// FuzzQuick compares what is read quickly with what the library makes of it.
func FuzzQuick(f *testing.F) {
	full := fullMessage()
	full.Run = &posthaste.RunLink{RunRef: posthaste.RunRef{ID: "r", CreatedAt: full.CreatedAt, Position: 1, URL: "u"}, CallType: "c", Entry: 1, Features: 1, ListBytes: 2}
	f.Add(AppendMessage(nil, full))
	f.Add(AppendMessage(nil, typical()))
	f.Add(AppendResponse(nil, &posthaste.Response{Status: 503, Header: full.Header, Body: []byte("no"), Truncated: true}))
	f.Add(AppendEvent(nil, &posthaste.Event{State: posthaste.StateError, Error: "no", NextDeliveryAt: full.CreatedAt, Attempt: posthaste.Attempt{Status: 500, Took: time.Second}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		compareQuick(t, data, (*quick).message)
		compareQuick(t, data, (*quick).response)
		compareQuick(t, data, (*quick).event)
	})
}

func compareQuick[T any](t *testing.T, data []byte, read func(*quick, *T) bool) {
	t.Helper()
	var got T
	if q := newQuick(data); !read(&q, &got) {
		return
	}
	want, err := decodeAny[T](data)
	if err != nil {
		t.Fatalf("%x is read as %+v, but the library says %v", data, got, err)
	}
	if !bytes.Equal(encode(nil, &got), encode(nil, &want)) {
		t.Errorf("%x is read as %+v, the library reads %+v", data, got, want)
	}
}
