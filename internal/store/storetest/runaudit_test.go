package storetest

import (
	"slices"
	"strings"
	"testing"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/storetest/model"
)

func TestAuditOfRuns(t *testing.T) {
	failed := func(change func(*store.RunPage)) func(store.RunQuery, *store.RunPage) {
		return func(query store.RunQuery, page *store.RunPage) {
			if query.Failed && len(page.Runs) > 0 {
				change(page)
			}
		}
	}
	for _, test := range []struct {
		name  string
		store tampered
		want  string // in the error; "" for none
	}{
		{name: "all is well"},
		{
			name:  "an entry is missing",
			store: tampered{list: func(e []posthaste.RunEntry) []posthaste.RunEntry { return e[1:] }},
			want:  "it says",
		},
		{
			name: "entries are out of order",
			store: tampered{list: func(e []posthaste.RunEntry) []posthaste.RunEntry {
				slices.Reverse(e)
				return e
			}},
			want: "has the index",
		},
		{
			name: "an entry is another one",
			store: tampered{list: func(e []posthaste.RunEntry) []posthaste.RunEntry {
				e[0].Body = []byte("other")
				return e
			}},
			want: "its body is not that of entry 0",
		},
		{
			name:  "the latest run is another one",
			store: tampered{latest: func(run *posthaste.Run) { run.Position-- }},
			want:  "latest run",
		},
		{
			name: "a run is not found by what it has",
			store: tampered{runs: func(query store.RunQuery, page *store.RunPage) {
				if len(query.Filter.URLs) > 0 && !query.Failed {
					page.Runs = nil
				}
			}},
			want: "0 runs found by its id",
		},
		{
			name: "a run is found as it was",
			store: tampered{runs: func(_ store.RunQuery, page *store.RunPage) {
				for _, run := range page.Runs {
					run.State = posthaste.RunCancelled
				}
			}},
			want: "found (-) and read (+)",
		},
		{
			name:  "a waiter is not found by its event",
			store: tampered{eventWaiters: func(w []*posthaste.Waiter) []*posthaste.Waiter { return w[:len(w)-1] }},
			want:  "is not found by its topic",
		},
		{
			name: "a waiter is another one",
			store: tampered{eventWaiters: func(w []*posthaste.Waiter) []*posthaste.Waiter {
				w[0].Step = nil
				return w
			}},
			want: "is not found by its topic",
		},
		{
			name: "a waiter is that of another run",
			store: tampered{waiters: func(waiters []*posthaste.Waiter) []*posthaste.Waiter {
				for _, w := range waiters {
					w.Run.Position++
				}
				return waiters
			}},
			want: "is among its own",
		},
		{
			name:  "a deadline is lost",
			store: tampered{due: func(due []store.DueWaiter) []store.DueWaiter { return due[1:] }},
			want:  "1 of 2 waiters with a deadline",
		},
		{
			name:  "a deadline is left behind",
			store: tampered{due: func(due []store.DueWaiter) []store.DueWaiter { return append(due, store.DueWaiter{User: ann}) }},
			want:  "waits for nothing",
		},
		{
			name: "a run does not know its entry of the DLQ",
			store: tampered{runs: failed(func(page *store.RunPage) {
				page.DeadLetters[0] = &posthaste.DeadLetter{ID: page.DeadLetters[0].ID + 1, Message: page.DeadLetters[0].Message}
			})},
			want: "has the entry",
		},
		{
			name: "an entry of the DLQ is not found by the id of its run",
			store: tampered{runs: func(query store.RunQuery, page *store.RunPage) {
				if len(query.Filter.RunIDPrefixes) > 0 {
					*page = store.RunPage{}
				}
			}},
			want: "0 times by that of its run",
		},
		{
			name:  "a run of the DLQ has no entry",
			store: tampered{runs: failed(func(page *store.RunPage) { page.DeadLetters = nil })},
			want:  "with 0 dead letters",
		},
		{
			name: "an event is missing in the log of runs",
			store: tampered{page: func(query store.EventQuery, page *store.EventPage) {
				if query.Filter.OfRuns {
					page.Entries = page.Entries[1:]
				}
			}},
			want: "events of messages of runs",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			tr := newTrial(t, model.New())
			run, _ := tr.start()
			tr.step(run)
			tr.await(run, until(tr.now))
			tr.await(run, until(tr.now), waitingFor(posthaste.RunTopic(run.RunRef)))
			tr.await(run)
			other, _ := tr.start()
			tr.step(other)
			tr.addToDLQ(other)
			test.store.Store = tr.store
			err := audit(t.Context(), test.store, ann, tr.makes.ids[ann])
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
