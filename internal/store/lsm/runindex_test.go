package lsm

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
)

var noonOfRuns = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func openMem(t *testing.T) *Store {
	t.Helper()
	s, err := Open("data", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// startRuns starts runs of ann with these ids, in one transaction.
func startRuns(tx store.RunTx, ids ...string) []*posthaste.Run {
	return each(ids, func(id string) *posthaste.Run {
		run := &posthaste.Run{
			User:        "ann",
			RunRef:      posthaste.RunRef{ID: id, URL: "http://workflow.example/", Position: tx.NextPosition(0)},
			RunProgress: posthaste.RunProgress{State: posthaste.RunStarted},
		}
		tx.Start(run)
		return run
	})
}

func addRunToDLQ(tx store.RunTx, run *posthaste.Run) {
	run.State, run.DeadLetterID = posthaste.RunFailed, posthaste.DeadLetterID(tx.NextPosition(0))
	tx.AddToDLQ(run, &posthaste.DeadLetter{ID: run.DeadLetterID, Message: &posthaste.Message{}})
	tx.Save(run)
}

// scribe writes runs at random.
type scribe struct {
	*testing.T
	rng    *rand.Rand
	store  ruled
	places []posthaste.Position        // of all runs
	inDLQ  map[posthaste.Position]bool // those in the DLQ
	waits  map[posthaste.Position]*posthaste.Waiter
}

// write makes some changes in one transaction, which may fail.
func (s *scribe) write() {
	errBroken := errors.New("broken")
	fails := s.rng.IntN(4) == 0
	places, inDLQ, waits := slices.Clone(s.places), maps.Clone(s.inDLQ), maps.Clone(s.waits)
	err := s.store.Transact(s.Context(), noonOfRuns, "ann", func(tx store.RunTx) error {
		for range 1 + s.rng.IntN(4) {
			if err := s.change(tx); err != nil {
				return err
			}
		}
		if fails {
			return errBroken
		}
		return nil
	})
	switch {
	case fails && errors.Is(err, errBroken):
		s.places, s.inDLQ, s.waits = places, inDLQ, waits
	case err != nil:
		s.Fatal(err)
	}
}

func (s *scribe) change(tx store.RunTx) error {
	if len(s.places) == 0 || s.rng.IntN(5) == 0 {
		run := startRuns(tx, pick(s, "a", "ab", "a\x00", "b"))[0]
		run.Labels = pick(s, nil, []string{"l"}, []string{"l", "m", "l"})
		run.CallerIP = pick(s, "", "::1")
		s.places = append(s.places, run.Position)
		return nil
	}
	run, err := tx.Run(pick(s, s.places...))
	if err != nil {
		return err
	}
	switch change := s.rng.IntN(7); {
	case change == 0 && run.DeadLetterID == 0:
		run.FailedStatus = pick(s, 0, 500)
		addRunToDLQ(tx, run)
		s.inDLQ[run.Position] = true
	case change == 1 && s.inDLQ[run.Position]:
		tx.RemoveFromDLQ(run)
		delete(s.inDLQ, run.Position)
	case change == 2 && run.DeadLetterID == 0:
		run.State = pick(s, posthaste.RunStates...)
		run.FlowControl.Key = pick(s, "", "k")
	case change == 3:
		run.Reported = &posthaste.RunCallback{State: pick(s, posthaste.CallbackStates...)}
	case change == 4:
		w := &posthaste.Waiter{Run: run.RunRef, Topic: posthaste.EventTopic("e"), Deadline: pick(s, time.Time{}, noonOfRuns)}
		tx.Wait(w)
		s.waits[w.Position] = w
	case change == 5 && len(s.waits) > 0:
		first := slices.Min(slices.Collect(maps.Keys(s.waits)))
		tx.EndWait(s.waits[first])
		delete(s.waits, first)
	case change == 6:
		tx.BufferEvent(run.Position, "e", nil)
		tx.PutIdempotencyRecord(run, "k", posthaste.MessageID{})
		return tx.Append(run, posthaste.RunEntry{}, nil)
	}
	tx.Save(run)
	return nil
}

// end ends every run and empties the DLQ.
func (s *scribe) end() {
	err := s.store.Transact(s.Context(), noonOfRuns, "ann", func(tx store.RunTx) error {
		for _, at := range s.places {
			run, err := tx.Run(at)
			if err != nil {
				return err
			}
			if s.inDLQ[at] {
				tx.RemoveFromDLQ(run)
			}
			run.State = posthaste.RunSuccess
			tx.Save(run)
		}
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	clear(s.inDLQ)
}

// trim removes the runs that have ended and are not in the DLQ.
func (s *scribe) trim() {
	horizon := store.Horizon{Runs: noonOfRuns.Add(time.Hour)}
	trimmed, err := s.store.Ledger.Trim(s.Context(), "ann", horizon)
	if err != nil {
		s.Fatal(err)
	}
	before := len(s.places)
	s.places = slices.DeleteFunc(s.places, func(at posthaste.Position) bool {
		_, err := s.store.Run(s.Context(), "ann", at)
		return errors.Is(err, store.ErrNotFound)
	})
	maps.DeleteFunc(s.waits, func(_ posthaste.Position, w *posthaste.Waiter) bool {
		return !slices.Contains(s.places, w.Run.Position)
	})
	if gone := before - len(s.places); gone != trimmed.Runs {
		s.Fatalf("%d runs are gone, Trim says %d", gone, trimmed.Runs)
	}
}

func pick[T any](s *scribe, values ...T) T { return values[s.rng.IntN(len(values))] }

// check requires the store to hold what there is and nothing else.
func (s *scribe) check() {
	s.Helper()
	c := &checker{db: s.store.db, report: &Report{}, last: posthaste.MaxPosition}
	if c.records(); len(c.report.Problems) > 0 {
		s.Fatalf("problems: %q", c.report.Problems)
	}
	if c.report.Runs != int64(len(s.places)) || c.report.FailedRuns != int64(len(s.inDLQ)) {
		s.Fatalf("%d runs and %d failed ones are stored, want %d and %d", c.report.Runs, c.report.FailedRuns, len(s.places), len(s.inDLQ))
	}
	for _, at := range s.places {
		waiters, err := s.store.RunWaiters(s.Context(), "ann", at)
		if err != nil {
			s.Fatal(err)
		}
		for _, w := range waiters {
			if s.waits[w.Position] == nil {
				s.Fatalf("waiter %d is left behind", w.Position)
			}
		}
	}
}

// Every key of runs is for something that is there, and all there is has its keys,
// whatever comes together in a transaction and whatever retention removes.
func TestKeysOfRunsAreExact(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			s := openMem(t)
			w := &scribe{
				T: t, rng: rand.New(rand.NewPCG(seed, 0)), store: ruled{ledger.New(s), s},
				inDLQ: map[posthaste.Position]bool{}, waits: map[posthaste.Position]*posthaste.Waiter{},
			}
			for range 100 {
				w.write()
				if w.rng.IntN(10) == 0 {
					w.trim()
				}
				w.check()
			}
			w.end()
			w.trim()
			w.check()
			if len(w.places) > 0 {
				t.Errorf("%d runs are left, all have ended", len(w.places))
			}
		})
	}
}

// ruled is a store with the rules of delivery.
type ruled struct {
	*ledger.Ledger
	*Store
}

// maxNamed is how many runs a page looks up by the beginnings of their ids.
const maxNamed = 1000

// A prefix that names more runs than are looked up by it finds them all the same.
func TestPrefixOfMany(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	s := ledger.New(openMem(t))
	var ids []string
	for n := range maxNamed + 10 {
		ids = append(ids, fmt.Sprintf("many-%d", n))
	}
	ids = append(ids, "few-1", "man", "few-2")
	err := s.Transact(t.Context(), noonOfRuns, "ann", func(tx store.RunTx) error {
		for _, run := range startRuns(tx, ids...) {
			addRunToDLQ(tx, run)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		prefixes []string
		want     int
	}{
		{"few", []string{"few-"}, 2},
		{"few of two prefixes, one within the other", []string{"few-", "few-1"}, 2},
		{"none", []string{"fewer"}, 0},
		{"many", []string{"many-"}, maxNamed + 10},
		{"many and few", []string{"few-", "many-"}, maxNamed + 12},
		{"many, found through what else is asked for", []string{"man"}, maxNamed + 11},
		{"all", []string{"m", "f"}, maxNamed + 13},
	} {
		for _, oldestFirst := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, oldest first %t", test.name, oldestFirst), func(t *testing.T) {
				query := store.RunQuery{
					Filter: posthaste.Filter{RunIDPrefixes: test.prefixes, URLs: []string{"http://workflow.example/"}},
					Failed: true, High: posthaste.MaxPosition, OldestFirst: oldestFirst, Limit: 300,
				}
				if got := countRuns(t, s, query); got != test.want {
					t.Errorf("%d runs found, want %d", got, test.want)
				}
			})
		}
	}
}

// countRuns follows a query to its last page and returns how many runs it finds.
func countRuns(t *testing.T, s store.Runs, query store.RunQuery) int {
	t.Helper()
	seen := map[posthaste.Position]bool{}
	for {
		page, err := s.Runs(t.Context(), "ann", query)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range page.Runs {
			seen[run.Position] = true
		}
		if !page.More {
			return len(seen)
		}
		if query.OldestFirst {
			query.Low = page.Next
		} else {
			query.High = page.Next
		}
	}
}
