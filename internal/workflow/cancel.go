package workflow

import (
	"context"
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// cancelStep is how many runs a bulk cancellation ends in one commit.
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
	for first := 0; first < len(ids); first += cancelStep {
		chunk := ids[first:min(first+cancelStep, len(ids))]
		n := 0
		err := s.transact(ctx, user, func(t *tx) error {
			n = 0
			for _, id := range chunk {
				run, err := t.active(id, time.Time{})
				if errors.Is(err, store.ErrNotFound) {
					continue
				}
				if err != nil {
					return err
				}
				if err := t.cancel(run); err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if cancelled += n; err != nil {
			return cancelled, err
		}
	}
	return cancelled, nil
}

// CancelMatching cancels the runs that go on and match, newest first and at most
// limit of them if that is not 0, and returns how many it changed. What starts while
// it goes on is not touched.
func (s *Service) CancelMatching(ctx context.Context, user string, query store.RunQuery, limit int) (cancelled int, err error) {
	query = goingOn(query, s.now())
	for limit == 0 || cancelled < limit {
		query.Limit = cancelStep
		if limit > 0 {
			query.Limit = min(cancelStep, limit-cancelled)
		}
		page, err := s.options.Store.Runs(ctx, user, query)
		if err != nil {
			return cancelled, err
		}
		n, err := s.cancelPage(ctx, user, page, nil)
		if cancelled += n; err != nil || !page.More {
			return cancelled, err
		}
		query.High = page.Next
	}
	return cancelled, nil
}

// goingOn narrows a query to runs that go on and were there at a time.
func goingOn(query store.RunQuery, at time.Time) store.RunQuery {
	query.Filter.States = []posthaste.RunState{posthaste.RunStarted}
	query.High = min(query.High, posthaste.LastPosition(at))
	return query
}

// cancelPage cancels those runs of a page that still go on, in one commit.
func (s *Service) cancelPage(ctx context.Context, user string, page store.RunPage, step *store.Step) (cancelled int, err error) {
	err = s.transact(ctx, user, func(t *tx) error {
		cancelled = 0
		for _, found := range page.Runs {
			run, err := t.Run(found.Position)
			if errors.Is(err, store.ErrNotFound) || err == nil && !run.Active() {
				continue
			}
			if err != nil {
				return err
			}
			if err := t.cancel(run); err != nil {
				return err
			}
			cancelled++
		}
		return t.Advance(step, cancelled, nil)
	})
	return cancelled, err
}
