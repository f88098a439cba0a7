package storetest

import (
	"strings"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/storetest/model"
)

// failedAndRetrying returns a store with one message that failed and one that
// waits for a retry, each after eight events in all: CREATED of both, and then
// ACTIVE, ERROR and the end of the attempt of the first and of the second.
func failedAndRetrying(t *testing.T) (s store.Store, ids []posthaste.MessageID) {
	tr := newTrial(t, model.New())
	first, second := tr.accept(), tr.accept(delayed(time.Minute))
	tr.settle(store.Failed(tr.claimOne(first), refused))
	tr.wait(time.Minute)
	tr.settle(store.RetryAt(tr.claimOne(second), tr.now.Add(time.Hour), refused))
	return tr.store, tr.makes.ids[ann]
}

// onPages is what a function makes of the entries of a page.
func onPages(entries func([]store.Entry) []store.Entry) func(store.EventQuery, *store.EventPage) {
	return func(_ store.EventQuery, page *store.EventPage) {
		if len(page.Entries) > 0 {
			page.Entries = altered(entries, page.Entries)
		}
	}
}

func TestAudit(t *testing.T) {
	change := func(at int, edit func(*store.Entry)) func([]store.Entry) []store.Entry {
		return func(entries []store.Entry) []store.Entry {
			edit(&entries[at])
			return entries
		}
	}
	for _, test := range []struct {
		name    string
		entries func([]store.Entry) []store.Entry
		status  func(*store.Status)
		want    string // in the error; "" for none
	}{
		{name: "all is well"},
		{
			name:    "an event is missing",
			entries: func(e []store.Entry) []store.Entry { return append(e[:2:2], e[3:]...) },
			want:    "ERROR cannot follow",
		},
		{
			name:    "all events of a message are missing",
			entries: func(e []store.Entry) []store.Entry { return append(e[1:2:2], e[5:]...) },
			want:    "no events",
		},
		{
			name:    "half a commit is missing",
			entries: func(e []store.Entry) []store.Entry { return e[:len(e)-1] },
			want:    "must log what came of it",
		},
		{
			name:    "a position is repeated",
			entries: change(1, func(e *store.Entry) { e.Position -= 2 * posthaste.Slots }),
			want:    "not in the order",
		},
		{
			name:    "an event is joined with another message",
			entries: change(0, func(e *store.Entry) { e.Message, e.MessageSize = &posthaste.Message{User: ann}, 0 }),
			want:    "is joined with",
		},
		{
			name:    "an event has a wrong size of its message",
			entries: change(0, func(e *store.Entry) { e.MessageSize++ }),
			want:    "says that its message has",
		},
		{
			name: "an event is joined with another user's message",
			entries: change(0, func(e *store.Entry) {
				theirs := *e.Message
				theirs.User = anna
				e.Message = &theirs
			}),
			want: "is joined with",
		},
		{
			name:    "an event has no message",
			entries: change(0, func(e *store.Entry) { e.Message = nil }),
			want:    "has no message",
		},
		{
			name:    "a response is at the wrong event",
			entries: change(4, func(e *store.Entry) { e.Response = refused.Response }),
			want:    "has a response",
		},
		{
			name:    "a retry does not say when",
			entries: change(7, func(e *store.Entry) { e.NextDeliveryAt = time.Time{} }),
			want:    "does not say when",
		},
		{
			name:    "an end promises a delivery",
			entries: change(4, func(e *store.Entry) { e.NextDeliveryAt = start }),
			want:    "promises a delivery",
		},
		{
			name:   "a message stands elsewhere",
			status: func(s *store.Status) { s.State = posthaste.StateDelivered },
			want:   "it must be at",
		},
		{
			name:   "a message that ended is claimed",
			status: func(s *store.Status) { s.State = posthaste.StateActive },
			want:   "it must be at FAILED",
		},
		{
			name:   "attempts are miscounted",
			status: func(s *store.Status) { s.Retried++ },
			want:   "retried 2",
		},
		{
			name:   "the next attempt is at another time",
			status: func(s *store.Status) { s.NextAttemptAt = s.NextAttemptAt.Add(time.Millisecond) },
			want:   "it must be at RETRY",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, ids := failedAndRetrying(t)
			err := audit(t.Context(), tampered{Store: s, page: onPages(test.entries), status: test.status}, ann, ids)
			if test.want == "" {
				if err != nil {
					t.Errorf("audit = %v, want none", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("audit = %v, want an error that says %q", err, test.want)
			}
		})
	}
}

func TestReadAllRefusesBadPages(t *testing.T) {
	at := func(positions ...posthaste.Position) (page store.EventPage) {
		for _, p := range positions {
			page.Entries = append(page.Entries, store.Entry{Event: posthaste.Event{Position: p}})
		}
		return page
	}
	more := func(page store.EventPage, next posthaste.Position) store.EventPage {
		page.More, page.Next = true, next
		return page
	}
	query := store.EventQuery{Low: 10, High: 20, OldestFirst: true, Limit: 3}
	latestFirst := query
	latestFirst.OldestFirst = false
	for _, test := range []struct {
		name  string
		query store.EventQuery
		page  store.EventPage
		want  string // in the error; "" for none
	}{
		{"a full page", query, at(10, 11, 20), ""},
		{"a full page, latest first", latestFirst, at(20, 11, 10), ""},
		{"an empty page that leads on", query, more(at(), 15), ""},
		{"too many events", query, at(11, 12, 13, 14), "at most 3"},
		{"an event below the range", query, at(9), "outside"},
		{"an event above the range", latestFirst, at(21), "outside"},
		{"the wrong order", query, at(12, 11), "order"},
		{"the other wrong order", latestFirst, at(11, 12), "order"},
		{"an event twice", query, at(11, 11), "order"},
		{"a page that goes back", query, more(at(11, 12), 12), "order"},
		{"a page that leads nowhere", query, more(at(), 10), "where it began"},
		{"a page that leads nowhere, latest first", latestFirst, more(at(), 20), "where it began"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := checkPage(test.query, test.page)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("checkPage = %v, want an error that says %q", err, test.want)
			}
		})
	}
}
