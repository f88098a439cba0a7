package workflow

import (
	"context"
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// cancelStep is how many runs a bulk cancellation ends in one commit at most.
const cancelStep = 50

// Cancel cancels the run with an id. A run that has ended stays as it is; it returns
// store.ErrNotFound if there never was one (decision 9 of the contract on
// workflows).
func (s *Service) Cancel(ctx context.Context, user string, id RunID) error {
	return s.transact(ctx, user, func(t *tx) error {
		run, err := t.LatestRun(id.ID)
		if err != nil {
			return err
		}
		if !run.Active() || !id.names(run) {
			return nil
		}
		return t.cancel(run)
	})
}

func (t *tx) cancel(run *posthaste.Run) error { return t.end(run, posthaste.RunCancelled, true, "") }

// CancelIDs cancels the runs that go on under the ids and returns how many there
// were.
func (s *Service) CancelIDs(ctx context.Context, user string, ids []string) (cancelled int, err error) {
	for len(ids) > 0 {
		n, some := 0, ids[:min(cancelStep, len(ids))]
		var left []string
		err := s.transact(ctx, user, func(t *tx) (err error) {
			n = 0
			left, err = doEach(t, some, func(id string) error {
				run, err := t.active(id, time.Time{})
				if errors.Is(err, store.ErrNotFound) {
					return nil
				}
				if err != nil {
					return err
				}
				n++
				return t.cancel(run)
			})
			return err
		})
		if err != nil {
			return cancelled, err
		}
		cancelled += n
		ids = ids[len(some)-len(left):]
	}
	return cancelled, nil
}

// CancelMatching cancels the runs that go on and match, newest first and at most
// limit of them if that is not 0, and returns how many it changed. What starts while
// it goes on is not touched.
func (s *Service) CancelMatching(ctx context.Context, user string, query store.RunQuery, limit int) (cancelled int, err error) {
	query, err = s.goingOn(ctx, user, query)
	if err != nil {
		return 0, err
	}
	for limit == 0 || cancelled < limit {
		query.Limit = cancelStep
		if limit > 0 {
			query.Limit = min(cancelStep, limit-cancelled)
		}
		page, err := s.options.Store.Runs(ctx, user, query)
		if err != nil {
			return cancelled, err
		}
		for len(page.Runs) > 0 && err == nil {
			n := 0
			n, page.Runs, err = s.cancelRuns(ctx, user, page.Runs, noStep)
			cancelled += n
		}
		if err != nil || !page.More {
			return cancelled, err
		}
		query.High = page.Next
	}
	return cancelled, nil
}

// goingOn narrows a query to runs that go on and are there now.
func (s *Service) goingOn(ctx context.Context, user string, query store.RunQuery) (store.RunQuery, error) {
	query.Filter.States = []posthaste.RunState{posthaste.RunStarted}
	newest, err := s.options.Store.Runs(ctx, user, store.RunQuery{High: posthaste.MaxPosition, Limit: 1})
	var end posthaste.Position // before the first of all
	for _, run := range newest.Runs {
		end = run.Position
	}
	query.High = min(query.High, end)
	return query, err
}

// cancelRuns cancels those of some runs that still go on, as many as fit in one commit,
// and returns those that are left.
func (s *Service) cancelRuns(ctx context.Context, user string, runs []*posthaste.Run,
	step func(left []*posthaste.Run) *store.Step,
) (cancelled int, left []*posthaste.Run, err error) {
	err = s.transact(ctx, user, func(t *tx) (err error) {
		cancelled = 0
		left, err = doEach(t, runs, func(found *posthaste.Run) error {
			run, err := t.Run(found.Position)
			if errors.Is(err, store.ErrNotFound) || err == nil && !run.Active() {
				return nil
			}
			if err != nil {
				return err
			}
			cancelled++
			return t.cancel(run)
		})
		if err != nil {
			return err
		}
		return t.Advance(step(left), cancelled, nil)
	})
	if err != nil {
		return 0, nil, err
	}
	return cancelled, left, nil
}
