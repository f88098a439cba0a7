package workflow

import (
	"context"
	"net/http"

	"posthaste"
	"posthaste/internal/store"
)

// Failed returns a page of the DLQ of runs, see store.Runs.
func (s *Service) Failed(ctx context.Context, user string, query store.RunQuery) (store.RunPage, error) {
	query.Failed = true
	return s.options.Store.Runs(ctx, user, query)
}

// FailedIDs is Failed for ids only, an engine.FindEntries.
func (s *Service) FailedIDs(ctx context.Context, user string, q store.DeadLetterQuery) (page store.DeadLetterPage, err error) {
	found, err := s.Failed(ctx, user, store.RunQuery{
		Filter: q.Filter, Low: q.Low, High: q.High, OldestFirst: q.OldestFirst, Limit: q.Limit, Bare: true,
	})
	for _, run := range found.Runs {
		page.IDs = append(page.IDs, run.DeadLetterID)
	}
	page.More, page.Next = found.More, found.Next
	return page, err
}

// DeleteFailed removes entries from the DLQ of runs and returns their number. The runs stay in
// the logs.
func (s *Service) DeleteFailed(ctx context.Context, user string, ids []posthaste.DeadLetterID) (deleted int, err error) {
	for len(ids) > 0 && err == nil {
		n := 0
		n, ids, err = s.deleteFailed(ctx, user, ids, noStep)
		deleted += n
	}
	return deleted, err
}

// deleteFailed deletes as many entries as fit in one commit.
func (s *Service) deleteFailed(ctx context.Context, user string, ids []posthaste.DeadLetterID,
	progress func(remaining []posthaste.DeadLetterID) *store.Step,
) (deleted int, remaining []posthaste.DeadLetterID, err error) {
	return changeEach(ctx, s, user, ids, progress, func(t *tx, id posthaste.DeadLetterID) (bool, error) {
		_, run, err := t.DLQEntry(id)
		if err != nil {
			return false, err
		}
		t.RemoveFromDLQ(run)
		return true, t.dropEvents(run)
	})
}

// RetryFailureCallback resends a failed failure callback (section 7.5). It returns
// store.ErrNotFound for an unknown entry, an Error with CodeInvalid in another state.
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
		return t.resendFailure(run, letter)
	})
	return of, err
}

// CancelFailureCallback cancels a failure callback in progress, with the errors of
// RetryFailureCallback.
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

func runID(run *posthaste.Run) RunID { return RunID{ID: run.ID, CreatedAt: run.CreatedAt} }

// SentHeader returns the headers that were sent with a message of a run, except those of every
// delivery.
func SentHeader(run *posthaste.Run, m *posthaste.Message) http.Header {
	if m.Run.CallType == posthaste.CallRequest {
		return m.Header
	}
	return protocolHeader(run, m)
}
