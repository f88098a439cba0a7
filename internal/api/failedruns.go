package api

import (
	"context"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// FailedRuns is the DLQ of workflow runs.
type FailedRuns interface {
	Failed(ctx context.Context, user string, query store.RunQuery) (store.RunPage, error)
	CountFailed(ctx context.Context, user string, query store.RunQuery) (int, error)
	Restart(ctx context.Context, user string, req workflow.RestartRequest) (results []workflow.Restarted, kept []byte, err error)
	DeleteFailed(ctx context.Context, user string, ids []posthaste.DeadLetterID) (int, error)
	RetryFailureCallback(ctx context.Context, user string, id posthaste.DeadLetterID) (workflow.RunID, error)
	CancelFailureCallback(ctx context.Context, user string, id posthaste.DeadLetterID) (workflow.RunID, error)
}

// failedRunRoutes are the routes of the DLQ of runs.
func (a *api) failedRunRoutes() []route { return nil }
