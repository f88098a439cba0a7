package workflow

import (
	"context"
	"errors"
	"net/http"

	"posthaste"
	"posthaste/internal/store"
)

// Failed returns a page of the DLQ of runs: see store.Runs.
func (s *Service) Failed(ctx context.Context, user string, query store.RunQuery) (store.RunPage, error) {
	query.Failed = true
	return s.options.Store.Runs(ctx, user, query)
}

// CountFailed returns how many entries of the DLQ of runs match.
func (s *Service) CountFailed(ctx context.Context, user string, query store.RunQuery) (total int, err error) {
	const pageSize = 1000
	query.Limit, query.OldestFirst, query.Bare = pageSize, true, true
	for {
		page, err := s.Failed(ctx, user, query)
		if total += len(page.Runs); err != nil || !page.More {
			return total, err
		}
		query.Low = page.Next
	}
}

// BeginSweep ends a query at what is the newest entry of the DLQ now: what fails again
// while its pages are worked through lies beyond that.
func (s *Service) BeginSweep(ctx context.Context, user string, query store.RunQuery) (store.RunQuery, error) {
	newest, err := s.Failed(ctx, user, store.RunQuery{High: posthaste.MaxPosition, Limit: 1, Bare: true})
	if err != nil {
		return query, err
	}
	var end posthaste.Position // before the first of all
	for _, run := range newest.Runs {
		end = posthaste.Position(run.DeadLetterID)
	}
	query.High = min(query.High, end)
	return query, nil
}

// DeleteFailed removes entries from the DLQ of runs and returns how many there were.
// The runs stay in the logs.
func (s *Service) DeleteFailed(ctx context.Context, user string, ids []posthaste.DeadLetterID) (deleted int, err error) {
	for len(ids) > 0 && err == nil {
		n := 0
		n, ids, err = s.deleteFailed(ctx, user, ids, noStep)
		deleted += n
	}
	return deleted, err
}

// noStep says that a change is no step of a bulk action, whatever it leaves.
func noStep[T any]([]T) *store.Step { return nil }

// deleteFailed does what fits in one commit, and returns the ids that are left.
func (s *Service) deleteFailed(ctx context.Context, user string, ids []posthaste.DeadLetterID,
	step func(left []posthaste.DeadLetterID) *store.Step,
) (deleted int, left []posthaste.DeadLetterID, err error) {
	err = s.transact(ctx, user, func(t *tx) (err error) {
		deleted = 0
		left, err = doEach(t, ids, func(id posthaste.DeadLetterID) error {
			_, run, err := t.DLQEntry(id)
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			t.RemoveFromDLQ(run)
			deleted++
			return t.dropEvents(run)
		})
		if err != nil {
			return err
		}
		return t.Advance(step(left), deleted, nil)
	})
	if err != nil {
		return 0, nil, err
	}
	return deleted, left, nil
}

// RetryFailureCallback sends the failure callback of a failed run again, which is
// allowed only after it has failed (section 7.5). It returns store.ErrNotFound for
// an unknown entry and an Error with CodeInvalid for another state.
func (s *Service) RetryFailureCallback(ctx context.Context, user string, id posthaste.DeadLetterID) (of RunID, err error) {
	err = s.transact(ctx, user, func(t *tx) error {
		letter, run, err := t.DLQEntry(id)
		if err != nil {
			return err
		}
		of = runID(run)
		if err := checkCallbackState(run, posthaste.CallbackFailed, "retried"); err != nil {
			return err
		}
		return t.sendFailureAgain(run, letter)
	})
	return of, err
}

// CancelFailureCallback cancels a failure callback that is in progress. Its errors are
// those of RetryFailureCallback.
func (s *Service) CancelFailureCallback(ctx context.Context, user string, id posthaste.DeadLetterID) (of RunID, err error) {
	err = s.transact(ctx, user, func(t *tx) error {
		_, run, err := t.DLQEntry(id)
		if err != nil {
			return err
		}
		of = runID(run)
		if err := checkCallbackState(run, posthaste.CallbackInProgress, "cancelled"); err != nil {
			return err
		}
		reported := *run.Reported
		reported.State = posthaste.CallbackCancelled
		run.Reported = &reported
		t.Save(run)
		_, err = t.Cancel(reported.MessageID)
		return err
	})
	return of, err
}

func checkCallbackState(run *posthaste.Run, want posthaste.CallbackState, done string) error {
	switch {
	case run.Reported == nil:
		return posthaste.Invalidf("workflow run %s has no failure callback", run.ID)
	case run.Reported.State != want:
		return posthaste.Invalidf("the failure callback of workflow run %s is in state %s, it can only be %s in state %s",
			run.ID, run.Reported.State, done, want)
	}
	return nil
}

// runID returns the names of a run.
func runID(run *posthaste.Run) RunID { return RunID{ID: run.ID, CreatedAt: run.CreatedAt} }

// SentHeader returns what was sent with a message of a run, but for the headers that
// every delivery has.
func SentHeader(run *posthaste.Run, m *posthaste.Message) http.Header {
	if m.Run.CallType == posthaste.CallRequest {
		return m.Header
	}
	return protocolHeader(run, m)
}
