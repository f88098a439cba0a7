// Package runlog owns the log of workflow runs as people and SDKs read it (contract,
// workflows 6.3). Nothing of it is stored: it is made from the runs, their lists,
// what they wait for, and where their messages stand.
//
// It has two forms. Runs shows each run with its steps in groups: first the initial
// payload; then every step in the order in which they began, those that are awaited
// together in one group; last, if a delivery to the workflow is not through yet, the
// step that is about to be taken. Facts is all that this is made of, and Facts.Show
// is a pure function.
//
// Events shows what changed, one by one. It reads the events of messages as changes
// of steps:
//
//   - RUN_STARTED, RUN_SUCCESS, RUN_FAILED and RUN_CANCELED are logged as they are;
//   - CREATED of a result, or of the initial payload, is STEP_SUCCESS; but of one
//     that is delivered later, which is a sleep, it is STEP_PROGRESS, and its
//     DELIVERED is STEP_SUCCESS;
//   - CREATED of a plan, of a call and of the answer of a call is STEP_PROGRESS;
//   - ERROR is STEP_RETRY if another attempt is planned, STEP_FAILED if it failed
//     the run, and nothing otherwise: a call that failed for good has an answer, and
//     after the end of a run nobody asks;
//   - CANCELLED is STEP_CANCELED.
//
// When a result cannot be delivered, the step in trouble is the one that comes after
// it; of that no more is known than the message, and the name if the SDK tells it.
// Failure callbacks are no steps. A step that waits has no message until its wait
// ends, which is STEP_SUCCESS.
package runlog

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/selection"
	"posthaste/internal/store"
)

// Store is what the log is made from.
type Store interface {
	Run(ctx context.Context, user string, at posthaste.Position) (*posthaste.Run, error)
	RunEntries(ctx context.Context, user string, at posthaste.Position, count int) ([]posthaste.RunEntry, error)
	Runs(ctx context.Context, user string, query store.RunQuery) (store.RunPage, error)
	RunWaiters(ctx context.Context, user string, at posthaste.Position) ([]*posthaste.Waiter, error)
	store.Reader
	store.Log
}

// Options configure a Log. Store is required.
type Options struct {
	Store Store
	Now   func() time.Time // nil: time.Now
}

// Log answers queries. It holds no state and may be used by many goroutines.
type Log struct {
	store Store
	now   func() time.Time
}

// New returns a Log that reads from the options' store.
func New(options Options) *Log {
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Log{store: options.Store, now: options.Now}
}

// How many runs and events a page has.
var (
	runCount   = selection.Count{Default: 10, Most: 10}
	eventCount = selection.Count{Default: 1000, Most: 1000}
)

// maxRounds bounds the work for a page: at most so many times as many runs or events
// as it has room for are looked at.
const maxRounds = 10

// RunPage is a part of the answer to a query. It may hold fewer runs than were asked
// for, also none, and still have a cursor.
type RunPage struct {
	Runs   []*Run
	Size   int    // bytes of what is shown, about
	Cursor string // asks for what follows; "" at the end
}

// Runs returns the page of a user's runs that URL parameters ask for. An unknown
// parameter and a bad value are Errors with CodeInvalid.
func (l *Log) Runs(ctx context.Context, user string, params url.Values) (page RunPage, err error) {
	q, err := selection.ReadRunLog(params, runCount)
	if err != nil {
		return page, err
	}
	query := q.Runs()
	if query.Filter.Positions, err = l.runsOf(ctx, user, q.MessageIDs); err != nil {
		return page, err
	}
	page.Cursor, err = fill(query.Limit, func(room int) (part, error) {
		query.Limit = room
		found, err := l.store.Runs(ctx, user, query)
		if err != nil {
			return part{}, fmt.Errorf("query runs: %w", err)
		}
		query.Low, query.High = rest(query.Low, query.High, query.OldestFirst, found.Next)
		before := len(page.Runs)
		looked, err := l.show(ctx, &q, found.Runs, &page)
		kept := len(page.Runs) - before
		if looked < len(found.Runs) {
			return part{looked, kept, true, found.Runs[looked].Position}, err
		}
		return part{looked, kept, found.More, found.Next}, err
	})
	return page, err
}

// part is what came of reading for a page.
type part struct {
	found, kept int
	more        bool
	next        posthaste.Position // where what follows begins
}

// fill reads for a page until its room is taken, everything was read, or enough was
// looked at; read is told how much room is left. It returns the cursor of the page.
func fill(room int, read func(room int) (part, error)) (cursor string, err error) {
	for range maxRounds {
		got, err := read(room)
		if err != nil || !got.more {
			return "", err
		}
		cursor = selection.Cursor(got.next)
		short := got.found < room // the store has done enough
		if room -= got.kept; short || room == 0 {
			break
		}
	}
	return cursor, nil
}

// rest returns what of a range is left when reading has come to a position.
func rest(low, high posthaste.Position, oldestFirst bool, next posthaste.Position) (posthaste.Position, posthaste.Position) {
	if oldestFirst {
		return next, high
	}
	return low, next
}

// nowhere is the position of no run.
const nowhere posthaste.Position = 0

// runsOf returns the positions of the runs that messages belong to, nil if none are
// asked for.
func (l *Log) runsOf(ctx context.Context, user string, ids []posthaste.MessageID) ([]posthaste.Position, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	positions := []posthaste.Position{nowhere}
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

// pageBytes is what a page of runs holds, or one run that has more. Runs are read one by one
// and shown before the next one is read, so that what is left out of a body takes no memory
// but that of its run.
const pageBytes = 4 << 20

// show adds those of some runs to a page that are asked for, as they are read. It returns how
// many it has looked at: all, or as many as there was room for.
func (l *Log) show(ctx context.Context, q *selection.RunLog, runs []*posthaste.Run, page *RunPage) (looked int, err error) {
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

// hasState reports whether a run, or a step of it, is in a state that is asked for
// (contract, workflows D 49). Without a step state the query has seen to it.
func hasState(q *selection.RunLog, run *Run) bool {
	if len(q.StepStates) == 0 || slices.Contains(q.RunStates, run.State) {
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
