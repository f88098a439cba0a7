package workflow

import (
	"context"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// cancelStep is the maximum number of runs that a cancellation ends in one commit.
const cancelStep = 50

// Cancel cancels a run. An ended run stays as it is. It returns store.ErrNotFound for an unknown
// one (decision 9 of the contract on workflows).
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

// CancelIDs cancels the active runs with the ids and returns their number.
func (s *Service) CancelIDs(ctx context.Context, user string, ids []string) (cancelled int, err error) {
	for some := range slices.Chunk(ids, cancelStep) {
		for len(some) > 0 {
			n := 0
			n, some, err = changeEach(ctx, s, user, some, noStep, func(t *tx, id string) (bool, error) {
				run, err := t.active(id, time.Time{})
				if err != nil {
					return false, err
				}
				return true, t.cancel(run)
			})
			if err != nil {
				return cancelled, err
			}
			cancelled += n
		}
	}
	return cancelled, nil
}

// CancelMatching cancels up to limit matching active runs (0 = all), newest first, and returns
// their number. Runs started during the call are not cancelled.
func (s *Service) CancelMatching(ctx context.Context, user string, query store.RunQuery, limit int) (cancelled int, err error) {
	query, err = s.activeNow(ctx, user, query)
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

// activeNow narrows a query to runs that are active now.
func (s *Service) activeNow(ctx context.Context, user string, query store.RunQuery) (store.RunQuery, error) {
	query.Filter.RunStates = []posthaste.RunState{posthaste.RunStarted}
	newest, err := s.options.Store.Runs(ctx, user, store.RunQuery{High: posthaste.MaxPosition, Limit: 1})
	var end posthaste.Position // 0: matches none
	for _, run := range newest.Runs {
		end = run.Position
	}
	query.High = min(query.High, end)
	return query, err
}

// cancelRuns cancels runs that are still active, as many as fit in one commit.
func (s *Service) cancelRuns(ctx context.Context, user string, runs []*posthaste.Run,
	progress func(remaining []*posthaste.Run) *store.Step,
) (cancelled int, remaining []*posthaste.Run, err error) {
	return changeEach(ctx, s, user, runs, progress, func(t *tx, found *posthaste.Run) (bool, error) {
		run, err := t.Run(found.Position)
		if err != nil || !run.Active() {
			return false, err
		}
		return true, t.cancel(run)
	})
}
