package postgres_test

import (
	"testing"

	"posthaste"
	"posthaste/internal/store"
)

// A page that is read oldest first is a beginning of the log, whatever is committed while
// it is read: who goes on behind its end misses nothing.
func TestAPageMissesNothingThatIsCommittedMeanwhile(t *testing.T) {
	const postings, one, other = 40, "https://one.example", "https://other.example"
	s := open(t, emptyDatabase(t))
	accept := func(url string) {
		m := newMessage(start)
		m.URL = url
		if err := acceptOne(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
	}
	for range postings {
		accept(one)
	}
	query := store.EventQuery{
		Filter: posthaste.Filter{URLs: []string{one, other}},
		High:   posthaste.MaxPosition, OldestFirst: true, Limit: 10 * postings,
	}
	page, err := s.EventsBetween(t.Context(), ann, query, func() { accept(other); accept(one) })
	if err != nil || len(page.Entries) < postings {
		t.Fatalf("a page of %d events, %v, want %d at least", len(page.Entries), err, postings)
	}
	query.Filter = posthaste.Filter{}
	log, err := store.ReadEvents(t.Context(), s, ann, query)
	if err != nil {
		t.Fatal(err)
	}
	for i, entry := range page.Entries {
		if entry.Position != log.Entries[i].Position {
			t.Fatalf("event %d of the page is at %d, the log has one at %d", i, entry.Position, log.Entries[i].Position)
		}
	}
}

// A user who is idle has an event in a block of its own, and a page of many is read in a few
// statements all the same.
func TestAPageOfAnIdleUserTakesFewStatements(t *testing.T) {
	const events, most = 150, 5
	s := open(t, emptyDatabase(t))
	for range events {
		accept(t, s, start)
	}
	statements := 0
	query := store.EventQuery{High: posthaste.MaxPosition, Limit: events}
	page, err := s.EventsBetween(t.Context(), ann, query, func() { statements++ })
	if err != nil || len(page.Entries) != events {
		t.Fatalf("a page of %d events, %v, want %d", len(page.Entries), err, events)
	}
	if statements > most {
		t.Errorf("%d statements, want %d at most", statements, most)
	}
}
