package postgres_test

import (
	"testing"
	"testing/synctest"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
)

// A commit that retries dead letters ends after a second, by a clock that is not that of
// the database, and leaves the others for the next.
func TestSlowRetriesAreDoneInPortions(t *testing.T) {
	const letters, atOnce = 7, 3
	url := emptyDatabase(t)
	synctest.Test(t, func(t *testing.T) {
		s := openWith(t, url, postgres.Options{AnyClock: true})
		ids := failMany(t, s, letters)
		for total := 0; total < letters; {
			retried, err := s.RetryDeadLetters(t.Context(), start, ann, ids, func(*posthaste.DeadLetter) (*posthaste.Message, error) {
				time.Sleep(400 * time.Millisecond)
				return newMessage(start), nil
			}, nil)
			if want := min(atOnce, letters-total); err != nil || len(retried) != want {
				t.Fatalf("%d dead letters are retried in one commit, %v, want %d", len(retried), err, want)
			}
			total += len(retried)
			ids = store.IDsAfter(ids, store.RetriedIDs(retried))
		}
	})
}

// failMany lets messages fail for good and returns their dead letters, oldest first.
func failMany(t *testing.T, s *ruled, n int) []posthaste.DeadLetterID {
	t.Helper()
	for range n {
		if err := acceptOne(t.Context(), s, newMessage(start)); err != nil {
			t.Fatal(err)
		}
	}
	claims, _, err := s.Claim(t.Context(), start, 100*n)
	if err != nil || len(claims) != n {
		t.Fatalf("%d messages are claimed, %v, want %d", len(claims), err, n)
	}
	for _, claim := range claims {
		if _, err := s.Settle(t.Context(), start, store.Failed(claim, posthaste.Outcome{Error: "no"})); err != nil {
			t.Fatal(err)
		}
	}
	page, err := s.DeadLetters(t.Context(), ann, store.DeadLetterQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: n, Bare: true})
	if err != nil || len(page.IDs) != n {
		t.Fatalf("%d dead letters, %v, want %d", len(page.IDs), err, n)
	}
	return page.IDs
}
