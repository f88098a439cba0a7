package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// ErrInjected is what a call fails with that a Plan lets fail.
var ErrInjected = errors.New("storetest: injected failure")

// Fault says when a call fails.
type Fault int

// The faults. A caller cannot tell the last two apart, and must not need to.
const (
	NoFault Fault = iota
	Before        // nothing has happened
	After         // the change has been made
)

// Call is a call of a store's method.
type Call struct {
	Method string // "Accept", "Settle"…
	Number int    // of this method's calls, from 1 on
}

// Plan decides about each call. It is asked about one call at a time.
type Plan func(Call) Fault

// Once lets one call fail: that of the method with the number, from 1 on.
func Once(method string, number int, fault Fault) Plan {
	return func(c Call) Fault {
		if c == (Call{method, number}) {
			return fault
		}
		return NoFault
	}
}

// Faulty returns a store that behaves like s but for the calls that the plan lets
// fail: Accept, Claim, Settle, Release, Cancel, Message, Events, RetryDeadLetters,
// DeleteDeadLetters, DueSchedules, Tick, Transact, DueWaiters, UpdateAction,
// PutSecretIfAbsent, CompareAndSwapSecret and Ping.
//
// Claims whose call fails after the change are released again: their leases are
// lost with the answer.
func Faulty(s store.Store, plan Plan) store.Store {
	return &faulty{Store: s, plan: plan, calls: map[string]int{}}
}

type faulty struct {
	store.Store

	mu    sync.Mutex // guards plan's turn and calls
	plan  Plan
	calls map[string]int
}

// next asks the plan about the next call of a method.
func (f *faulty) next(method string) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[method]++
	return f.plan(Call{method, f.calls[method]})
}

// do makes a call, unless it is to fail before.
func (f *faulty) do(method string, call func() error) error {
	fault := f.next(method)
	if fault == Before {
		return ErrInjected
	}
	err := call()
	if err == nil && fault == After {
		return ErrInjected
	}
	return err
}

// ask is do for a call that answers something, which is lost when it fails.
func ask[T any](f *faulty, method string, call func() (T, error)) (T, error) {
	var answer, nothing T
	err := f.do(method, func() (err error) {
		answer, err = call()
		return err
	})
	if err != nil {
		return nothing, err
	}
	return answer, nil
}

func (f *faulty) Accept(ctx context.Context, now time.Time, submissions []store.Submission) ([]store.Accepted, error) {
	return ask(f, "Accept", func() ([]store.Accepted, error) { return f.Store.Accept(ctx, now, submissions) })
}

func (f *faulty) Claim(ctx context.Context, now time.Time, limit int) ([]store.Claim, time.Time, error) {
	var claims []store.Claim
	var next time.Time
	err := f.do("Claim", func() (err error) {
		claims, next, err = f.Store.Claim(ctx, now, limit)
		return err
	})
	if errors.Is(err, ErrInjected) && len(claims) > 0 {
		err = errors.Join(err, f.Store.Release(ctx, now, claims))
		claims, next = nil, time.Time{}
	}
	return claims, next, err
}

func (f *faulty) Settle(ctx context.Context, now time.Time, settlement store.Settlement) error {
	return f.do("Settle", func() error { return f.Store.Settle(ctx, now, settlement) })
}

func (f *faulty) Release(ctx context.Context, now time.Time, claims []store.Claim) error {
	return f.do("Release", func() error { return f.Store.Release(ctx, now, claims) })
}

func (f *faulty) Cancel(ctx context.Context, now time.Time, user string, ids []posthaste.MessageID, step *store.Step) ([]posthaste.MessageID, error) {
	return ask(f, "Cancel", func() ([]posthaste.MessageID, error) { return f.Store.Cancel(ctx, now, user, ids, step) })
}

func (f *faulty) Message(ctx context.Context, user string, id posthaste.MessageID) (store.Status, error) {
	return ask(f, "Message", func() (store.Status, error) { return f.Store.Message(ctx, user, id) })
}

func (f *faulty) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	page, err := ask(f, "Events", func() (store.EventPage, error) { return store.ReadEvents(ctx, f.Store, user, query) })
	if err != nil {
		return 0, false, err
	}
	return page.Visit(visit)
}

func (f *faulty) DeleteDeadLetters(ctx context.Context, user string, ids []posthaste.DeadLetterID, step store.Progress) ([]posthaste.DeadLetterID, error) {
	return ask(f, "DeleteDeadLetters", func() ([]posthaste.DeadLetterID, error) {
		return f.Store.DeleteDeadLetters(ctx, user, ids, step)
	})
}

func (f *faulty) RetryDeadLetters(ctx context.Context, now time.Time, user string, ids []posthaste.DeadLetterID,
	remake func(*posthaste.DeadLetter) (*posthaste.Message, error), step store.Progress,
) ([]store.Retried, error) {
	return ask(f, "RetryDeadLetters", func() ([]store.Retried, error) {
		return f.Store.RetryDeadLetters(ctx, now, user, ids, remake, step)
	})
}

func (f *faulty) DueSchedules(ctx context.Context, now time.Time, limit int, except ...string) ([]*posthaste.Schedule, time.Time, error) {
	var next time.Time
	due, err := ask(f, "DueSchedules", func() (due []*posthaste.Schedule, err error) {
		due, next, err = f.Store.DueSchedules(ctx, now, limit, except...)
		return due, err
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	return due, next, nil
}

func (f *faulty) Tick(ctx context.Context, now time.Time, before, after *posthaste.Schedule, messages []*posthaste.Message) error {
	return f.do("Tick", func() error { return f.Store.Tick(ctx, now, before, after, messages) })
}

func (f *faulty) Transact(ctx context.Context, now time.Time, user string, change func(store.RunTx) error) error {
	return f.do("Transact", func() error { return f.Store.Transact(ctx, now, user, change) })
}

func (f *faulty) DueWaiters(ctx context.Context, now time.Time, limit int, except ...string) ([]store.DueWaiter, time.Time, error) {
	var next time.Time
	due, err := ask(f, "DueWaiters", func() (due []store.DueWaiter, err error) {
		due, next, err = f.Store.DueWaiters(ctx, now, limit, except...)
		return due, err
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	return due, next, nil
}

func (f *faulty) UpdateAction(ctx context.Context, user, id string, change func(*posthaste.BulkAction)) error {
	return f.do("UpdateAction", func() error { return f.Store.UpdateAction(ctx, user, id, change) })
}

func (f *faulty) PutSecretIfAbsent(ctx context.Context, key, value string) (string, error) {
	return ask(f, "PutSecretIfAbsent", func() (string, error) { return f.Store.PutSecretIfAbsent(ctx, key, value) })
}

func (f *faulty) CompareAndSwapSecret(ctx context.Context, key, old, value string) error {
	return f.do("CompareAndSwapSecret", func() error { return f.Store.CompareAndSwapSecret(ctx, key, old, value) })
}

func (f *faulty) Ping(ctx context.Context) error {
	return f.do("Ping", func() error { return f.Store.Ping(ctx) })
}
