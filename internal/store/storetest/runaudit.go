package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/store"
)

// farFuture is when every deadline has passed.
var farFuture = time.Date(5000, 1, 1, 0, 0, 0, 0, time.UTC)

// auditRuns proves the promises on a user's runs: each is found in every way there
// is, its list is as long as it says and its messages deliver it, what it waits for
// is found by topic and deadline and nothing else is, and the DLQ holds runs that
// know their entry. The entries are the user's log without what tells of runs.
func auditRuns(ctx context.Context, s store.Store, user string, entries []store.Entry) error {
	a := newRunAudit(s, user)
	return errors.Join(a.checkRecords(ctx), a.checkLog(ctx, entries))
}

// runAudit audits the runs of one user.
type runAudit struct {
	store.Store
	user  string
	lists map[posthaste.Position][]posthaste.RunEntry // of every run
	due   []store.DueWaiter                           // every waiter that has a deadline
}

func newRunAudit(s store.Store, user string) *runAudit {
	return &runAudit{Store: s, user: user, lists: map[posthaste.Position][]posthaste.RunEntry{}}
}

// checkRecords audits all but the log.
func (a *runAudit) checkRecords(ctx context.Context) error {
	return errors.Join(a.checkRuns(ctx), a.checkDeadlines(ctx), a.checkDLQ(ctx))
}

func (a *runAudit) checkRuns(ctx context.Context) error {
	runs, _, err := readRuns(ctx, a, a.user, allRuns)
	if err != nil {
		return err
	}
	latest := map[string]posthaste.Position{}
	var errs []error
	for _, run := range runs {
		latest[run.ID] = run.Position
		if err := a.checkRun(ctx, run); err != nil {
			errs = append(errs, fmt.Errorf("run %s at %d: %w", run.ID, run.Position, err))
		}
	}
	for id, at := range latest {
		if run, err := a.LatestRun(ctx, a.user, id); err != nil || run.Position != at {
			errs = append(errs, fmt.Errorf("latest run %s is %v, %v; want that at %d", id, run, err, at))
		}
	}
	return errors.Join(errs...)
}

func (a *runAudit) checkRun(ctx context.Context, run *posthaste.Run) error {
	alone, err := a.Run(ctx, a.user, run.Position)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(run, alone); diff != "" {
		return fmt.Errorf("found (-) and read (+):\n%s", diff)
	}
	found, _, err := readRuns(ctx, a, a.user, store.RunQuery{
		Filter: posthaste.Filter{RunIDs: []string{run.ID}, URLs: []string{run.URL}, RunStates: []posthaste.RunState{run.State}},
		Low:    run.Position, High: run.Position, Limit: 1,
	})
	if err != nil || len(found) != 1 {
		return fmt.Errorf("%d runs found by its id, URL and state, %v", len(found), err)
	}
	return errors.Join(a.checkList(ctx, run), a.checkWaiters(ctx, run))
}

// checkList requires a list to be as long as its run says, in entries and in bytes, and
// without gaps.
func (a *runAudit) checkList(ctx context.Context, run *posthaste.Run) error {
	list, err := a.RunEntries(ctx, a.user, run.Position, 0, -1)
	if err != nil {
		return err
	}
	a.lists[run.Position] = list
	if len(list) != run.Entries {
		return fmt.Errorf("its list has %d entries, it says %d", len(list), run.Entries)
	}
	size := 0
	for i, entry := range list {
		if entry.Index != i {
			return fmt.Errorf("entry %d of its list has the index %d", i, entry.Index)
		}
		size += len(entry.Body)
	}
	if size != run.ListBytes {
		return fmt.Errorf("its list has %d bytes, it says %d", size, run.ListBytes)
	}
	return nil
}

// checkWaiters requires each waiter of a run to be found by what it waits for.
func (a *runAudit) checkWaiters(ctx context.Context, run *posthaste.Run) error {
	waiters, err := a.RunWaiters(ctx, a.user, run.Position)
	if err != nil {
		return err
	}
	for _, w := range waiters {
		if w.Run.Position != run.Position {
			return fmt.Errorf("waiter %d of run %d is among its own", w.Position, w.Run.Position)
		}
		if !w.Deadline.IsZero() {
			a.due = append(a.due, store.DueWaiter{User: a.user, Run: run.Position, Position: w.Position})
		}
		found, err := a.waitersFor(ctx, w.Topic)
		if err != nil {
			return err
		}
		same := func(other *posthaste.Waiter) bool { return cmp.Equal(w, other) }
		if !slices.ContainsFunc(found, same) {
			return fmt.Errorf("waiter %d is not found by its topic %q", w.Position, w.Topic)
		}
	}
	return nil
}

func (a *runAudit) waitersFor(ctx context.Context, topic posthaste.Topic) (waiters []*posthaste.Waiter, err error) {
	if id, ok := topic.EventID(); ok {
		return a.EventWaiters(ctx, a.user, id)
	}
	err = a.Transact(ctx, start, a.user, func(tx store.RunTx) (err error) {
		waiters, err = tx.Waiters(topic)
		return err
	})
	return waiters, err
}

// checkDeadlines requires the waiters with a deadline, and no others, to be due in
// the end.
func (a *runAudit) checkDeadlines(ctx context.Context) error {
	all, next, err := a.DueWaiters(ctx, farFuture, 1_000_000)
	if err != nil || !next.IsZero() {
		return fmt.Errorf("when all deadlines have passed the next one is at %v, %v", next, err)
	}
	due := slices.DeleteFunc(all, func(w store.DueWaiter) bool { return w.User != a.user })
	for _, w := range due {
		if !slices.Contains(a.due, w) {
			return fmt.Errorf("%+v is due and waits for nothing", w)
		}
	}
	if len(due) != len(a.due) {
		return fmt.Errorf("%d of %d waiters with a deadline are due in the end", len(due), len(a.due))
	}
	return nil
}

// checkDLQ requires the DLQ to hold runs that know their entry, each once.
func (a *runAudit) checkDLQ(ctx context.Context) error {
	runs, letters, err := readRuns(ctx, a, a.user, allInDLQ)
	if err != nil {
		return err
	}
	for i, run := range runs {
		query := allInDLQ
		query.Low, query.High = posthaste.Position(letters[i].ID), posthaste.Position(letters[i].ID)
		query.Filter = posthaste.Filter{
			DeadLetterIDs: []posthaste.DeadLetterID{letters[i].ID}, Statuses: []int{run.FailedStatus}, CreatedAts: []time.Time{run.CreatedAt},
		}
		byID, _, idErr := readRuns(ctx, a, a.user, query)
		query.Filter = posthaste.Filter{RunIDPrefixes: []string{run.ID}, URLs: []string{run.URL}}
		byPrefix, _, prefixErr := readRuns(ctx, a, a.user, query)
		switch {
		case idErr != nil || prefixErr != nil:
			return errors.Join(idErr, prefixErr)
		case run.DeadLetterID != letters[i].ID || run.State != posthaste.RunFailed:
			return fmt.Errorf("entry %s of the DLQ is of run %s, which is %s and has the entry %s",
				letters[i].ID, run.ID, run.State, run.DeadLetterID)
		case len(byID) != 1 || len(byPrefix) != 1:
			return fmt.Errorf("entry %s of the DLQ is found %d times by its id and %d times by that of its run",
				letters[i].ID, len(byID), len(byPrefix))
		}
	}
	return nil
}

// checkLog requires every message of a run to deliver what the run's list says, and
// the log of runs to hold its events and, besides, those that tell of runs.
func (a *runAudit) checkLog(ctx context.Context, entries []store.Entry) error {
	ofRuns, err := readAll(ctx, a, a.user, store.EventQuery{
		Filter: posthaste.Filter{OfRuns: true}, High: posthaste.MaxPosition, OldestFirst: true, Limit: 1000,
	})
	if err != nil {
		return err
	}
	if err := checkPositions(ofRuns); err != nil {
		return err
	}
	for _, e := range ofRuns {
		if err := a.checkDelivery(e.Message); err != nil {
			return fmt.Errorf("message %s: %w", e.MessageID, err)
		}
	}
	told := slices.DeleteFunc(ofRuns, func(e store.Entry) bool { return e.State.OfRun() })
	want := slices.DeleteFunc(slices.Clone(entries), func(e store.Entry) bool { return e.Message == nil || e.Message.Run == nil })
	if !slices.EqualFunc(told, want, sameEntry) {
		return fmt.Errorf("events of messages of runs:\n%swant\n%s", entriesText(told), entriesText(want))
	}
	return nil
}

func (a *runAudit) checkDelivery(m *posthaste.Message) error {
	if m == nil || m.Run == nil {
		return errors.New("it is in the log of runs and belongs to none")
	}
	if m.Run.CallType == posthaste.CallFailure {
		return nil
	}
	list, kept := a.lists[m.Run.Position]
	if !kept && len(m.Body) == 0 {
		return nil // retention has removed its run, and the body with it
	}
	if m.Run.Entry >= len(list) || !bytes.Equal(list[m.Run.Entry].Body, m.Body) {
		return fmt.Errorf("its body is not that of entry %d of run %s", m.Run.Entry, m.Run.ID)
	}
	return nil
}

// readRuns follows a query to its last page. It returns an error when a page is
// larger than asked for, leaves the query's order or range, or leads nowhere.
func readRuns(ctx context.Context, s store.Runs, user string, query store.RunQuery) (runs []*posthaste.Run, letters []*posthaste.DeadLetter, err error) {
	for {
		page, err := s.Runs(ctx, user, query)
		if err != nil {
			return nil, nil, fmt.Errorf("runs from %d to %d: %w", query.Low, query.High, err)
		}
		if err := checkRunPage(query, page); err != nil {
			return nil, nil, err
		}
		if err := checkRunBytes(page); err != nil {
			return nil, nil, err
		}
		runs, letters = append(runs, page.Runs...), append(letters, page.DeadLetters...)
		if !page.More {
			return runs, letters, nil
		}
		if query.OldestFirst {
			query.Low = page.Next
		} else {
			query.High = page.Next
		}
	}
}

// checkRunBytes is checkBytes for a page of runs.
func checkRunBytes(page store.RunPage) error {
	sizes := make([]int, len(page.Runs))
	for i, run := range page.Runs {
		sizes[i] = store.RunSize(run)
		if len(page.DeadLetters) > 0 {
			sizes[i] += store.DeadLetterSize(page.DeadLetters[i])
		}
	}
	return checkBytes(sizes, store.PageBytes, func(size *int) int { return *size })
}

// checkRunPage requires a page of runs to be one as a page of events would be.
func checkRunPage(query store.RunQuery, page store.RunPage) error {
	letters := 0
	if query.Failed && !query.Bare {
		letters = len(page.Runs)
	}
	if len(page.DeadLetters) != letters {
		return fmt.Errorf("a page of %d runs with %d dead letters, want %d", len(page.Runs), len(page.DeadLetters), letters)
	}
	events := store.EventPage{More: page.More, Next: page.Next}
	for _, run := range page.Runs {
		at := run.Position
		if query.Failed {
			at = posthaste.Position(run.DeadLetterID)
		}
		events.Entries = append(events.Entries, store.Entry{Event: posthaste.Event{Position: at}})
	}
	return checkPage(store.EventQuery{Low: query.Low, High: query.High, OldestFirst: query.OldestFirst, Limit: query.Limit}, events)
}
