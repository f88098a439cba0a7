package api_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"posthaste"
	"posthaste/internal/api"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// lending is a source of pages that are wanted back, and that are scribbled over then.
type lending struct{ lent, returned int }

func (l *lending) Events() (store.EventPage, error) {
	page := logFake()
	messages := map[*posthaste.Message]*posthaste.Message{}
	for i, entry := range page.Entries {
		if messages[entry.Message] == nil {
			m := *entry.Message
			m.Header, m.Body = m.Header.Clone(), bytes.Clone(m.Body)
			messages[entry.Message] = &m
		}
		page.Entries[i].Message = messages[entry.Message]
	}
	l.lent++
	page.GiveBack = func() {
		l.returned++
		clear(page.Entries)
		for _, m := range messages {
			clear(m.Header)
			clear(m.Body)
			*m = posthaste.Message{}
		}
	}
	return page, nil
}

// TestPagesAreGivenBack compares what is made of pages that are given back with what is made
// of others.
func TestPagesAreGivenBack(t *testing.T) {
	for _, test := range []struct {
		name, path, media string
		lent, returned    int
	}{
		{"a page", "/v2/logs", "application/json", 1, 1},
		{"a page of events", "/v2/events", "application/json", 1, 1},
		{"an export", "/v2/logs?count=21", "application/x-ndjson", 3, 3},
		{"a follower", "/v2/logs?fromDate=0&count=21", "text/event-stream", 3, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			ask := func(source fakeSource) string {
				handler := newSurface(t, &published{}, func(o *api.Options) {
					o.Log = eventlog.New(eventlog.Options{Store: source})
				})
				r := newRequest(http.MethodGet, test.path, nil)
				r.Header.Set("Accept", test.media)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					t.Fatalf("%d %s", w.Code, w.Body)
				}
				return w.Body.String()
			}
			var l lending
			got := ask(l.Events)
			if want := ask(func() (store.EventPage, error) { return logFake(), nil }); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if l.lent != test.lent || l.returned != test.returned {
				t.Errorf("%d of %d pages were given back, want %d of %d", l.returned, l.lent, test.returned, test.lent)
			}
		})
	}
}
