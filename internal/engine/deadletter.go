package engine

import (
	"context"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// FindEntries reads a page of one of the DLQs. If the query is bare, it has only ids.
type FindEntries func(ctx context.Context, user string, query store.DeadLetterQuery) (store.DeadLetterPage, error)

// Newest returns the position of the latest entry, 0 if there is none.
func (find FindEntries) Newest(ctx context.Context, user string) (posthaste.Position, error) {
	page, err := find(ctx, user, store.DeadLetterQuery{High: posthaste.MaxPosition, Limit: 1, Bare: true})
	if err != nil || len(page.IDs) == 0 {
		return 0, err
	}
	return posthaste.Position(page.IDs[0]), nil
}

// Count returns the number of matching entries.
func (find FindEntries) Count(ctx context.Context, user string, query store.DeadLetterQuery) (total int, err error) {
	const pageSize = 1000
	query.Limit, query.OldestFirst, query.Bare = pageSize, true, true
	for {
		page, err := find(ctx, user, query)
		if total += len(page.IDs); err != nil || !page.More {
			return total, err
		}
		query.Low = page.Next
	}
}

// DeleteDeadLetters removes dead letters and returns the removed ones; it may stop early, see
// store.Store.
func (e *Engine) DeleteDeadLetters(ctx context.Context, user string, ids []posthaste.DeadLetterID) ([]posthaste.DeadLetterID, error) {
	return e.options.Store.DeleteDeadLetters(ctx, user, ids, nil)
}

// CheckOverrides returns an Error if the overrides exceed a limit, so that every retry would be
// rejected.
func (e *Engine) CheckOverrides(o posthaste.Overrides) error {
	return e.options.Limits.CheckOverrides(o, e.now())
}

// RetryDeadLetters replaces dead letters by new messages with overrides. Unknown ids are skipped,
// and it may stop early, see store.Store.
func (e *Engine) RetryDeadLetters(ctx context.Context, user string, ids []posthaste.DeadLetterID, o posthaste.Overrides) ([]store.Retried, error) {
	return e.retry(ctx, user, ids, o, nil)
}

func (e *Engine) retry(ctx context.Context, user string, ids []posthaste.DeadLetterID, o posthaste.Overrides, progress store.Progress) ([]store.Retried, error) {
	now := e.now()
	retried, err := e.options.Store.RetryDeadLetters(ctx, now, user, ids, func(d *posthaste.DeadLetter) (*posthaste.Message, error) {
		return e.remake(d.Message, o, now)
	}, progress)
	for _, r := range retried {
		if r.Message != nil {
			e.options.Observer.Accepted(1)
		}
	}
	return retried, err
}

// CheckFlowControl rejects a flow-control key without value, or the reverse, which results if
// only one is overridden.
func CheckFlowControl(flow posthaste.FlowControl, failed string) error {
	hasKey, hasLimit := flow.Key != "", flow.FlowLimit != posthaste.FlowLimit{}
	switch {
	case hasKey && !hasLimit:
		return posthaste.Invalidf("the flow-control key %.100q cannot be set alone: the %s had no flow-control value, give one too", flow.Key, failed)
	case hasLimit && !hasKey:
		return posthaste.Invalidf("the flow-control value cannot be set alone: the %s had no flow-control key, give one too", failed)
	}
	return nil
}

// remake makes a new message from a failed one.
func (e *Engine) remake(failed *posthaste.Message, o posthaste.Overrides, now time.Time) (*posthaste.Message, error) {
	again := Publication{Delay: o.Delay, NotBefore: o.NotBefore, Settings: failed.Settings.With(o.Settings)}
	if err := CheckFlowControl(again.FlowControl, "failed message"); err != nil {
		return nil, err
	}
	start := again.StartAt(now)
	if err := e.options.Limits.Check(again, start.Sub(now)); err != nil {
		return nil, err
	}
	id, err := e.newID(now)
	if err != nil {
		return nil, err
	}
	m := *failed
	m.ID, m.CreatedAt, m.NotBefore, m.Settings = id, now, start, e.options.Limits.WithDefaults(again.Settings)
	m.SetSlot(e.options.OwnSlot)
	m.SourceID = posthaste.MessageID{} // a callback no longer counts for its source
	return &m, nil
}
