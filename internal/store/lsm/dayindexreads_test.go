package lsm

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
)

// TestPagesOfFailingReads lets each read of a page in turn fail, of a log of sixty days in which
// two values lie in days of their own: no page is short without an error.
func TestPagesOfFailingReads(t *testing.T) {
	const days = 60
	var left atomic.Int64
	options := Options{FS: failingReads(&left, errors.New("the disk has a bad spot")), Logger: slog.New(slog.DiscardHandler)}
	s, err := Open("data", options)
	if err != nil {
		t.Fatal(err)
	}
	for d := range days {
		now := noonOfRuns.Add(time.Duration(d) * 24 * time.Hour)
		id, err := posthaste.NewMessageID(now, zeros{})
		if err != nil {
			t.Fatal(err)
		}
		m := &posthaste.Message{ID: id, User: "ann", URL: "http://a.example/", CreatedAt: now, NotBefore: now}
		m.Labels = []string{[]string{"odd", "even"}[d%2]}
		if _, err := ledger.New(s).Accept(t.Context(), now, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Compact(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	query := store.EventQuery{High: posthaste.MaxPosition, Limit: days}
	query.Filter.Labels = []string{"odd", "even"}
	reads := int64(0)
	for failed := true; failed; reads++ {
		s, err := Open("data", options)
		if err != nil {
			t.Fatal(err)
		}
		left.Store(reads + 1)
		page, err := store.ReadEvents(t.Context(), s, "ann", query)
		failed = left.Load() <= 0
		left.Store(0)
		if entries := len(page.Entries); err == nil && entries != days {
			t.Errorf("read %d fails: a page of %d entries without an error, want %d", reads+1, entries, days)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if reads < 5 {
		t.Errorf("a page took %d reads", reads-1)
	}
}
