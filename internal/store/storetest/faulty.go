package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

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
	Method string // "Claim", "Settle"…
	Number int    // of this method's calls, from 1 on
}

// Plan decides about each call. It is asked about one call at a time.
type Plan func(Call) Fault

// Faulty returns a store that behaves like s but for the calls that the plan lets
// fail: Claim, Settle, Transact and DueWaiters.
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

func (f *faulty) Claim(ctx context.Context, now time.Time, limit int) (claims []store.Claim, next time.Time, err error) {
	err = f.do("Claim", func() (err error) {
		claims, next, err = f.Store.Claim(ctx, now, limit)
		return err
	})
	if errors.Is(err, ErrInjected) {
		return nil, time.Time{}, errors.Join(err, f.Store.Release(ctx, now, claims))
	}
	return claims, next, err
}

func (f *faulty) Settle(ctx context.Context, now time.Time, settlement store.Settlement) (settled store.Settlement, err error) {
	err = f.do("Settle", func() (err error) {
		settled, err = f.Store.Settle(ctx, now, settlement)
		return err
	})
	return settled, err
}

func (f *faulty) Transact(ctx context.Context, now time.Time, user string, change func(store.RunTx) error) error {
	return f.do("Transact", func() error { return f.Store.Transact(ctx, now, user, change) })
}

func (f *faulty) DueWaiters(ctx context.Context, now time.Time, limit int, except ...string) (due []store.DueWaiter, next time.Time, err error) {
	err = f.do("DueWaiters", func() (err error) {
		due, next, err = f.Store.DueWaiters(ctx, now, limit, except...)
		return err
	})
	return due, next, err
}
