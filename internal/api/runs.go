package api

import (
	"context"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// Runs is the protocol that the SDKs of workflows speak.
type Runs interface {
	// Submit takes in items of runs, all or none.
	Submit(ctx context.Context, user string, items []workflow.Item) ([]workflow.Receipt, error)
	Wait(ctx context.Context, user string, req workflow.WaitRequest) (posthaste.MessageID, error)
	Notify(ctx context.Context, user, eventID string, event []byte) ([]workflow.Notified, error)
	NotifyRun(ctx context.Context, user, runID, eventID string, event []byte) (workflow.Notified, error)
	EventWaiters(ctx context.Context, user, eventID string) ([]*posthaste.Waiter, error)
	Entries(ctx context.Context, user string, id workflow.RunID) ([]posthaste.RunEntry, error)
	Finish(ctx context.Context, user string, id workflow.RunID, result *string) error
	Cancel(ctx context.Context, user string, id workflow.RunID) error
	CancelIDs(ctx context.Context, user string, ids []string) (int, error)
	CancelMatching(ctx context.Context, user string, query store.RunQuery, limit int) (int, error)
}

// runRoutes are the routes of the protocol of runs.
func (a *api) runRoutes() []route { return nil }
