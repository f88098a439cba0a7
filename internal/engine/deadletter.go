package engine

import (
	"context"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Overrides change what a dead letter is retried with. What is not given stays as
// it was.
type Overrides struct {
	Delay     time.Duration
	NotBefore time.Time
	posthaste.Settings
}

// StartAt returns when the first attempt of what they are applied to is due.
func (o *Overrides) StartAt(now time.Time) time.Time {
	p := Publication{Delay: o.Delay, NotBefore: o.NotBefore}
	return p.StartAt(now)
}

// DeadLetters returns a page of dead letters: see store.DeadLetters.
func (e *Engine) DeadLetters(ctx context.Context, user string, query store.DeadLetterQuery) (store.DeadLetterPage, error) {
	return e.options.Store.DeadLetters(ctx, user, query)
}

// DeadLetter returns a dead letter, or store.ErrNotFound.
func (e *Engine) DeadLetter(ctx context.Context, user string, id posthaste.DeadLetterID) (*posthaste.DeadLetter, error) {
	return e.options.Store.DeadLetter(ctx, user, id)
}

// DeleteDeadLetters removes dead letters and returns those that there were, of the first of
// the ids at least: see store.DeadLetters.
func (e *Engine) DeleteDeadLetters(ctx context.Context, user string, ids []posthaste.DeadLetterID) ([]posthaste.DeadLetterID, error) {
	return e.options.Store.DeleteDeadLetters(ctx, user, ids, nil)
}

// CheckOverrides returns an Error about overrides with which nothing could be retried: one
// that is over its limit.
func (e *Engine) CheckOverrides(o Overrides) error {
	return e.options.Limits.CheckOverrides(o, e.now())
}

// RetryDeadLetters publishes dead letters again as new messages, with overrides,
// and removes them from the DLQ. Ids that are not there are passed over, and the results
// may end early: see store.DeadLetters.
func (e *Engine) RetryDeadLetters(ctx context.Context, user string, ids []posthaste.DeadLetterID, o Overrides) ([]store.Retried, error) {
	return e.retry(ctx, user, ids, o, nil)
}

func (e *Engine) retry(ctx context.Context, user string, ids []posthaste.DeadLetterID, o Overrides, step store.Progress) ([]store.Retried, error) {
	now := e.now()
	retried, err := e.options.Store.RetryDeadLetters(ctx, now, user, ids, func(d *posthaste.DeadLetter) (*posthaste.Message, error) {
		return e.remake(d.Message, o, now)
	}, step)
	for _, r := range retried {
		if r.Message != nil {
			e.options.Observer.Accepted(1)
		}
	}
	return retried, err
}

// CheckFlowControl refuses half of a flow control: one half was overridden, and what
// failed had no other.
func CheckFlowControl(flow posthaste.FlowControl, failed string) error {
	hasKey, hasLimit := flow.Key != "", flow.FlowLimit != posthaste.FlowLimit{}
	switch {
	case hasKey && !hasLimit:
		return posthaste.Invalidf("the flow-control key %.100q cannot be taken alone: the %s had no flow-control value, give one too", flow.Key, failed)
	case hasLimit && !hasKey:
		return posthaste.Invalidf("the flow-control value cannot be taken alone: the %s had no flow-control key, give one too", failed)
	}
	return nil
}

// remake makes a new message of one that failed.
func (e *Engine) remake(failed *posthaste.Message, o Overrides, now time.Time) (*posthaste.Message, error) {
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
	m.SourceID = posthaste.MessageID{} // the slot it held was given up
	return &m, nil
}
