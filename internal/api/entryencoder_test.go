package api

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// TestSharedMessages encodes a message once, changes it, which nobody else may, and looks
// in which cases it is shown as it was.
func TestSharedMessages(t *testing.T) {
	form := entryForm{cancelled: posthaste.StateCancelled, bodyLimit: mostShared}
	bodiless := entryForm{cancelled: posthaste.StateCancelled}
	tests := map[string]struct {
		body        int // bytes
		first, form entryForm
		later       func(*sharedMessages)
		want        bool
	}{
		"at once":                              {10, form, form, func(*sharedMessages) {}, true},
		"in another form":                      {10, form, bodiless, func(*sharedMessages) {}, false},
		"a large one":                          {mostShared / 64, form, form, func(*sharedMessages) {}, false},
		"a large one of which little is shown": {mostShared / 64, bodiless, bodiless, func(*sharedMessages) {}, false},
		"after some others":                    {10, form, form, shareOthers(mostShared), true},
		"after too many others":                {10, form, form, shareOthers(2*mostShared + 2048), false},
		"in nobody else's sight":               {10, form, form, nil, false},
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
			show(test.first)
			test.later(shared)
			m.URL = "https://b.example"
			if got := bytes.Contains(show(test.form), []byte("https://a.example")); got != test.want {
				t.Errorf("shown as it was: %v, want %v", got, test.want)
			}
		})
	}
}

// shareOthers keeps other messages, which have so many bytes together with what is shown of
// them.
func shareOthers(size int) func(*sharedMessages) {
	return func(s *sharedMessages) {
		const each = 1024
		for range size / each {
			s.keep(&posthaste.Message{}, entryForm{}, make([]byte, each/4), each-each/4)
		}
	}
}

// TestFollowersShare writes an entry to a follower, changes its message, which nobody else
// may, and looks whether the next follower is shown it as it was.
func TestFollowersShare(t *testing.T) {
	a := &api{}
	for name, test := range map[string]struct {
		age  time.Duration
		want bool
	}{"lately": {0, true}, "long ago": {time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			m := &posthaste.Message{URL: "https://a.example"}
			event := posthaste.Event{Position: posthaste.FirstPosition(time.Now().Add(-test.age))}
			follow := func() string {
				var got httptest.ResponseRecorder
				got.Body = new(bytes.Buffer)
				if err := a.writeEntries(newOutlet(&got), &eventlog.Follower{}, []store.Entry{store.NewEntry(event, m)}, entryForm{cancelled: posthaste.StateCancelled}); err != nil {
					t.Fatal(err)
				}
				return got.Body.String()
			}
			follow()
			m.URL = "https://b.example"
			if got := strings.Contains(follow(), "https://a.example"); got != test.want {
				t.Errorf("shown as it was: %v, want %v", got, test.want)
			}
		})
	}
}

// lost is the writer of a connection that is lost.
type lost struct{ http.ResponseWriter }

func (lost) Write([]byte) (int, error) { return 0, net.ErrClosed }

// TestFollowerIsLost writes entries to a client that has gone, the last of which nobody
// could encode.
func TestFollowerIsLost(t *testing.T) {
	m := &posthaste.Message{URL: "https://a.example"}
	entries := slices.Repeat([]store.Entry{store.NewEntry(posthaste.Event{Position: posthaste.FirstPosition(time.Now())}, m)}, pieceBytes/10)
	entries[len(entries)-1].Message = nil
	out := newOutlet(lost{httptest.NewRecorder()})
	if err := (&api{}).writeEntries(out, &eventlog.Follower{}, entries, entryForm{cancelled: posthaste.StateCancelled}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("writeEntries = %v, want what the connection says", err)
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

// TestEncodeOwn compares what is an entry's own with what an encoder of JSON makes of it.
func TestEncodeOwn(t *testing.T) {
	form := entryForm{cancelled: cancelledToSDKs, bodyLimit: 10}
	e := newEntryEncoder(form)
	defer e.release()
	own := []posthaste.Event{
		{Error: "no \"answer\""}, {NextDeliveryAt: time.UnixMilli(2)}, {Response: &posthaste.Response{Status: 500, Body: []byte("no")}},
	}
	for _, state := range posthaste.States {
		own = append(own, posthaste.Event{State: state, Position: posthaste.FirstPosition(time.UnixMilli(1))})
	}
	for _, event := range own {
		entry := store.Entry{Event: event}
		want := encodeJSON(form.view(entry))
		if got := e.encodeOwn(entry); !bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(want)) {
			t.Errorf("%+v is %s, want %s", event, got, want)
		}
	}
}
