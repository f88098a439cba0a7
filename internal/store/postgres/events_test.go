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
		Filter: store.EventFilter{URLs: []string{one, other}},
		High:   posthaste.MaxPosition, OldestFirst: true, Limit: 10 * postings,
	}
	page, err := s.EventsBetween(t.Context(), ann, query, func() { accept(other); accept(one) })
	if err != nil || len(page.Entries) < postings {
		t.Fatalf("a page of %d events, %v, want %d at least", len(page.Entries), err, postings)
	}
	query.Filter = store.EventFilter{}
	log, err := s.Events(t.Context(), ann, query)
	if err != nil {
		t.Fatal(err)
	}
	for i, entry := range page.Entries {
		if entry.Position != log.Entries[i].Position {
			t.Fatalf("event %d of the page is at %d, the log has one at %d", i, entry.Position, log.Entries[i].Position)
		}
	}
}
