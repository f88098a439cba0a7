package postgres_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
)

// The index lags behind the log, and nobody sees it: another node finds, counts and checks what this
// one has only just committed.
func TestTheIndexLagsBehindUnseen(t *testing.T) {
	const events = 3
	url := emptyDatabase(t)
	writer, reader := open(t, url), open(t, url)
	d := newDamager(t, url)
	lags := func() bool {
		left := 0
		if err := d.conn.QueryRow(t.Context(), `
			SELECT count(*) FROM posthaste.events e JOIN posthaste.indexed i USING (user_id) WHERE e.first > i.first`).Scan(&left); err != nil {
			t.Fatal(err)
		}
		return left > 0
	}
	n := 0
	for name, read := range map[string]func() (int, error){
		"find": func() (int, error) {
			page, err := store.ReadEvents(t.Context(), reader, ann, store.EventQuery{
				Filter: posthaste.Filter{States: []posthaste.State{posthaste.StateDelivered}}, High: posthaste.MaxPosition, Limit: 100,
			})
			return events * len(page.Entries), err
		},
		"count": func() (sum int, err error) {
			err = reader.Counts(t.Context(), ann, start.Add(-24*time.Hour), start.Add(24*time.Hour), func(c *store.Count) { sum += int(c.N) })
			return sum, err
		},
		"usage": func() (int, error) {
			u, err := reader.Usage(t.Context(), ann)
			return int(u.Log.Entries), err
		},
	} {
		for !lags() {
			n++
			settle(t, writer, store.Delivered(claimOne(t, writer, accept(t, writer, start))))
		}
		if report, err := postgres.Check(t.Context(), url); err != nil || len(report.Problems) > 0 {
			t.Errorf("the index lags, and a check finds %q, %v", report.Problems, err)
		}
		if got, err := read(); err != nil || got != events*n {
			t.Errorf("%s: %d events, %v, want %d", name, got, err, events*n)
		}
	}
	settle(t, writer, store.Delivered(claimOne(t, writer, accept(t, writer, start))))
	damaged := d.with("events", `UPDATE posthaste.events e SET entries = '\x01' FROM posthaste.indexed i
		WHERE i.user_id = e.user_id AND e.first > i.first AND e.first = (SELECT max(first) FROM posthaste.events)`)
	if lags() && (len(damaged) == 0 || !strings.Contains(damaged[0], "adds to the index")) {
		t.Errorf("damaged entries: problems %q", damaged)
	}
}

// A message whose only recent event is not in the index yet is kept by retention.
func TestRetentionSeesWhatTheIndexLacks(t *testing.T) {
	s := open(t, emptyDatabase(t))
	m := accept(t, s, start)
	claim := claimOne(t, s, m)
	later := start.Add(10 * 24 * time.Hour)
	if _, err := s.Settle(t.Context(), later, store.Delivered(claim)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DropDays(t.Context(), ann, later); err != nil {
		t.Fatal(err)
	}
	page, err := store.ReadEvents(t.Context(), s, ann, store.EventQuery{High: posthaste.MaxPosition, Limit: 10})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Message == nil {
		t.Fatalf("%d events, %v, want the last of the message", len(page.Entries), err)
	}
}

// Usage of all users is complete, also while this node writes the index.
func TestUsageWhileTheIndexIsWritten(t *testing.T) {
	s := open(t, emptyDatabase(t))
	done := make(chan struct{})
	var indexing sync.WaitGroup
	indexing.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if err := s.CompleteIndex(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
	})
	defer func() {
		close(done)
		indexing.Wait()
	}()
	for n := range 100 {
		accept(t, s, start)
		usage, err := s.Usage(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if usage.Log.Entries != int64(n+1) {
			t.Fatalf("after %d messages usage counts %d entries", n+1, usage.Log.Entries)
		}
	}
}
