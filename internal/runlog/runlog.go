// Package runlog makes the log of workflow runs that people and SDKs read (contract, workflows
// 6.3) from runs, lists, waiters and messages. Nothing of it is stored.
//
// Runs returns each run with its steps in groups: the payload; then every step in order of its
// start, parallel ones in one group; then the step about to run, if a delivery to the workflow is
// under way. Facts has the data, and Facts.Show is a pure function.
//
// Events returns single changes, derived from events of messages:
//
//   - RUN_STARTED, RUN_SUCCESS, RUN_FAILED and RUN_CANCELED are logged as such;
//   - CREATED of a result or payload is STEP_SUCCESS; if delivered later, as in a sleep, it is
//     STEP_PROGRESS and its DELIVERED is STEP_SUCCESS;
//   - CREATED of a plan, a call or its response is STEP_PROGRESS;
//   - ERROR is STEP_RETRY before another attempt, STEP_FAILED if it failed the run, else nothing;
//   - CANCELLED is STEP_CANCELED.
//
// If a result cannot be delivered, the failing step is the next one, of which only the message is
// known, and the name if the SDK sends it. Failure callbacks are no steps. A waiting step has no
// message until its wait ends with STEP_SUCCESS.
package runlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Store is the part of the store that the log needs.
type Store interface {
	Run(ctx context.Context, user string, at posthaste.Position) (*posthaste.Run, error)
	RunEntries(ctx context.Context, user string, at posthaste.Position, from, count int) ([]posthaste.RunEntry, error)
	Runs(ctx context.Context, user string, query store.RunQuery) (store.RunPage, error)
	RunWaiters(ctx context.Context, user string, at posthaste.Position) ([]*posthaste.Waiter, error)
	Message(ctx context.Context, user string, id posthaste.MessageID) (store.Status, error)
	store.Log
}

// Options configure a Log. Store is required.
type Options struct {
	Store Store
	Now   func() time.Time // nil: time.Now
}

// Log answers queries. It has no state and is safe for concurrent use.
type Log struct {
	store Store
	now   func() time.Time
}

// New returns a Log.
func New(options Options) *Log {
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Log{store: options.Store, now: options.Now}
}

// maxRounds limits the work for a page to this many times its length.
const maxRounds = 10

// RunPage is one page of results. It may be short or empty and still have More.
type RunPage struct {
	Runs []*Run
	Size int // approximate bytes shown
	More bool
	Next posthaste.Position // as in store.EventPage
}

// Runs returns the page of runs that a query selects.
func (l *Log) Runs(ctx context.Context, user string, q *Query) (page RunPage, err error) {
	query := q.Runs()
	if query.Filter.Positions, err = l.runsOf(ctx, user, q.Filter.MessageIDs); err != nil {
		return page, err
	}
	page.Next, page.More, err = fill(query.Limit, func(room int) (part, error) {
		query.Limit = room
		found, err := l.store.Runs(ctx, user, query)
		if err != nil {
			return part{}, fmt.Errorf("query runs: %w", err)
		}
		query.Low, query.High = rest(query.Low, query.High, query.OldestFirst, found.Next)
		before := len(page.Runs)
		looked, err := l.show(ctx, q, found.Runs, &page)
		kept := len(page.Runs) - before
		if looked < len(found.Runs) {
			return part{looked, kept, true, found.Runs[looked].Position}, err
		}
		return part{looked, kept, found.More, found.Next}, err
	})
	return page, err
}

// part is the result of one read for a page.
type part struct {
	found, kept int
	more        bool
	next        posthaste.Position // start of the next part
}

// fill reads parts until the page is full, everything was read or enough was searched, and
// returns where the next page begins. read gets the number of missing results.
func fill(room int, read func(room int) (part, error)) (next posthaste.Position, more bool, err error) {
	for range maxRounds {
		got, err := read(room)
		if err != nil || !got.more {
			return 0, false, err
		}
		next = got.next
		short := got.found < room // the store has stopped early
		if room -= got.kept; short || room == 0 {
			break
		}
	}
	return next, true, nil
}

// rest returns the rest of a range after a position.
func rest(low, high posthaste.Position, oldestFirst bool, next posthaste.Position) (posthaste.Position, posthaste.Position) {
	if oldestFirst {
		return next, high
	}
	return low, next
}

// noRun is the position of no run.
const noRun posthaste.Position = 0

// runsOf returns the positions of the messages' runs, nil if ids is empty.
func (l *Log) runsOf(ctx context.Context, user string, ids []posthaste.MessageID) ([]posthaste.Position, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	positions := []posthaste.Position{noRun}
	for _, id := range ids {
		st, err := l.store.Message(ctx, user, id)
		if errors.Is(err, store.ErrNotFound) || err == nil && st.Message.Run == nil {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find run of %s: %w", id, err)
		}
		positions = append(positions, st.Message.Run.Position)
	}
	return positions, nil
}

// pageBytes limits a page, or one larger run. Runs are read and shown one by one, so that cut
// bodies are freed.
const pageBytes = 4 << 20

// show adds selected runs to a page and returns how many it has looked at before the page was
// full.
func (l *Log) show(ctx context.Context, q *Query, runs []*posthaste.Run, page *RunPage) (looked int, err error) {
	for i, run := range runs {
		if page.Size >= pageBytes {
			return i, nil
		}
		if !q.MatchesRun(run.RunRef) {
			continue
		}
		facts, err := l.gather(ctx, run)
		if err != nil {
			return i, fmt.Errorf("read run %s: %w", run.ID, err)
		}
		if facts == nil {
			continue
		}
		if run := facts.Show(q.BodyLimit); hasState(q, run) {
			page.Runs = append(page.Runs, run)
			page.Size += facts.size(q.BodyLimit)
		}
	}
	return len(runs), nil
}

// hasState reports whether a run or one of its steps is in a requested state (contract, workflows
// D 49). Without states of steps, the query has checked it.
func hasState(q *Query, run *Run) bool {
	if len(q.StepStates) == 0 || slices.Contains(q.Filter.RunStates, run.State) {
		return true
	}
	for _, group := range run.Groups {
		for _, step := range group.Steps {
			if slices.Contains(q.StepStates, step.State) {
				return true
			}
		}
	}
	return false
}
