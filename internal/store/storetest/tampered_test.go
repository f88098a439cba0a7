package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// tampered is a store that is asked something else, or whose answers are altered. What is nil
// alters nothing.
type tampered struct {
	store.Store
	loses func(method string) bool // says it made a change, or that there is nothing
	hides error                    // is not told

	submission   func(*store.Submission)
	claim        func(now *time.Time, limit *int)
	claimed      func(now time.Time, limit int, claims []store.Claim, next *time.Time) []store.Claim
	settlement   func(*store.Settlement)
	tx           func(store.RunTx) store.RunTx
	transaction  func(now *time.Time, user *string)
	trim         func(*store.Horizon)
	query        func(filter *posthaste.Filter, high *posthaste.Position)
	eventQuery   func(*store.EventQuery)
	page         func(store.EventQuery, *store.EventPage)
	watch        func(*posthaste.Position, *<-chan struct{})
	status       func(*store.Status)
	usage        func(*store.Usage)
	letters      func([]*posthaste.DeadLetter) []*posthaste.DeadLetter
	runs         func(store.RunQuery, *store.RunPage)
	latest       func(*posthaste.Run)
	list         func([]posthaste.RunEntry) []posthaste.RunEntry
	waiters      func([]*posthaste.Waiter) []*posthaste.Waiter
	eventWaiters func([]*posthaste.Waiter) []*posthaste.Waiter
	dueNow       func(now *time.Time, limit *int)
	due          func([]store.DueWaiter) []store.DueWaiter
}

// with returns a function that tampers with a store.
func with(t tampered) func(store.Store) store.Store {
	return func(s store.Store) store.Store {
		t := t
		t.Store = s
		return t
	}
}

// alter calls a function, if there is one.
func alter[T any](with func(*T), value *T) {
	if with != nil {
		with(value)
	}
}

// altered is what a function makes of a list, if there is one.
func altered[T any](with func([]T) []T, list []T) []T {
	if with == nil {
		return list
	}
	return with(list)
}

func (t tampered) lost(method string) bool { return t.loses != nil && t.loses(method) }

func (t tampered) told(err error) error {
	if t.hides != nil && errors.Is(err, t.hides) {
		return nil
	}
	return err
}

func (t tampered) ask(filter *posthaste.Filter, high *posthaste.Position) {
	if t.query != nil {
		t.query(filter, high)
	}
}

func (t tampered) Accept(ctx context.Context, now time.Time, submissions []store.Submission) ([]store.Accepted, error) {
	whole := []store.Accepted{{IDs: submissions[0].IDs()}}
	if t.lost("Accept") {
		return whole, nil
	}
	if messages := submissions[0].Messages; len(messages) > 1 && t.lost("half of Accept") {
		return whole, errorOf(t.Store.Accept(ctx, now, []store.Submission{{Messages: messages[:1]}}))
	}
	for i := range submissions {
		if t.submission == nil {
			break
		}
		messages := make([]*posthaste.Message, len(submissions[i].Messages))
		for j, m := range submissions[i].Messages {
			edited := *m
			messages[j] = &edited
		}
		submissions[i].Messages = messages
		t.submission(&submissions[i])
	}
	return t.Store.Accept(ctx, now, submissions)
}

func (t tampered) Claim(ctx context.Context, now time.Time, limit int) ([]store.Claim, time.Time, error) {
	at, most := now, limit
	if t.claim != nil {
		t.claim(&at, &most)
	}
	claims, next, err := t.Store.Claim(ctx, at, most)
	if t.claimed != nil {
		claims = t.claimed(now, limit, claims, &next)
	}
	return claims, next, err
}

func (t tampered) Settle(ctx context.Context, now time.Time, settlement store.Settlement) (store.Settlement, error) {
	if t.lost("Settle") {
		return settlement, nil
	}
	alter(t.settlement, &settlement)
	if update := settlement.UpdateRun; update != nil && t.tx != nil {
		settlement.UpdateRun = func(tx store.RunTx, s *store.Settlement) error { return update(t.tx(tx), s) }
	}
	settled, err := t.Store.Settle(ctx, now, settlement)
	return settled, t.told(err)
}

func (t tampered) Release(ctx context.Context, now time.Time, claims []store.Claim) error {
	if t.lost("Release") {
		return nil
	}
	return t.Store.Release(ctx, now, claims)
}

func (t tampered) Cancel(ctx context.Context, now time.Time, user string, ids []posthaste.MessageID, step *store.Step) ([]posthaste.MessageID, error) {
	changed, err := t.Store.Cancel(ctx, now, user, ids, step)
	if len(changed) > 0 && t.lost("count of Cancel") {
		changed = changed[1:]
	}
	return changed, err
}

func (t tampered) Transact(ctx context.Context, now time.Time, user string, change func(store.RunTx) error) error {
	if t.transaction != nil {
		t.transaction(&now, &user)
	}
	var end error
	if t.lost("Transact") {
		end = errGivenUp
	}
	err := t.Store.Transact(ctx, now, user, func(tx store.RunTx) error {
		if t.tx != nil {
			tx = t.tx(tx)
		}
		return errors.Join(change(tx), end)
	})
	return except(err, end)
}

func (t tampered) Tick(ctx context.Context, now time.Time, before, after *posthaste.Schedule, messages []*posthaste.Message) error {
	return t.told(t.Store.Tick(ctx, now, before, after, messages))
}

func (t tampered) CompareAndSwapSecret(ctx context.Context, key, old, value string) error {
	return t.told(t.Store.CompareAndSwapSecret(ctx, key, old, value))
}

func (t tampered) Secret(ctx context.Context, key string) (string, error) {
	if t.lost("Secret") {
		return "", store.ErrNotFound
	}
	return t.Store.Secret(ctx, key)
}

func (t tampered) DeleteDeadLetters(ctx context.Context, user string, ids []posthaste.DeadLetterID, progress store.Progress) ([]posthaste.DeadLetterID, error) {
	if t.lost("DeleteDeadLetters") {
		return ids[:1], nil
	}
	return t.Store.DeleteDeadLetters(ctx, user, ids, progress)
}

func (t tampered) DeleteURLGroup(ctx context.Context, user, name string) error {
	if t.lost("DeleteURLGroup") {
		return nil
	}
	return t.Store.DeleteURLGroup(ctx, user, name)
}

func (t tampered) Close() error {
	if t.lost("Close") {
		return nil
	}
	return t.Store.Close()
}

func (t tampered) Trim(ctx context.Context, user string, horizon store.Horizon) (store.Trimmed, error) {
	if t.lost("Trim") {
		return store.Trimmed{Runs: 1}, nil
	}
	alter(t.trim, &horizon)
	return t.Store.Trim(ctx, user, horizon)
}

func (t tampered) Wake() <-chan struct{} {
	if t.lost("Wake") {
		return nil
	}
	return t.Store.Wake()
}

func (t tampered) Watch(ctx context.Context, user string) (posthaste.Position, <-chan struct{}, error) {
	end, grown, err := t.Store.Watch(ctx, user)
	if t.watch != nil {
		t.watch(&end, &grown)
	}
	return end, grown, err
}

func (t tampered) Message(ctx context.Context, user string, id posthaste.MessageID) (store.Status, error) {
	status, err := t.Store.Message(ctx, user, id)
	alter(t.status, &status)
	return status, err
}

func (t tampered) Stats(ctx context.Context, now time.Time) (store.Stats, error) {
	if t.lost("Stats") {
		return store.Stats{}, nil
	}
	return t.Store.Stats(ctx, now)
}

func (t tampered) Usage(ctx context.Context, user string) (store.Usage, error) {
	usage, err := t.Store.Usage(ctx, user)
	alter(t.usage, &usage)
	return usage, err
}

func (t tampered) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	t.ask(&query.Filter, &query.High)
	alter(t.eventQuery, &query)
	if t.page == nil {
		return t.Store.Events(ctx, user, query, visit)
	}
	page, err := store.ReadEvents(ctx, t.Store, user, query)
	if err != nil {
		return 0, false, err
	}
	t.page(query, &page)
	return page.Visit(visit)
}

func (t tampered) LiveMessages(ctx context.Context, user string, query store.LiveQuery) ([]posthaste.MessageID, string, error) {
	t.ask(&query.Filter, new(posthaste.Position))
	return t.Store.LiveMessages(ctx, user, query)
}

func (t tampered) DeadLetters(ctx context.Context, user string, query store.DeadLetterQuery) (store.DeadLetterPage, error) {
	t.ask(&query.Filter, &query.High)
	page, err := t.Store.DeadLetters(ctx, user, query)
	page.DeadLetters = altered(t.letters, page.DeadLetters)
	return page, err
}

func (t tampered) Runs(ctx context.Context, user string, query store.RunQuery) (store.RunPage, error) {
	t.ask(&query.Filter, &query.High)
	page, err := t.Store.Runs(ctx, user, query)
	if t.runs != nil {
		t.runs(query, &page)
	}
	return page, err
}

func (t tampered) LatestRun(ctx context.Context, user, id string) (*posthaste.Run, error) {
	run, err := t.Store.LatestRun(ctx, user, id)
	if t.latest != nil {
		t.latest(run)
	}
	return run, err
}

func (t tampered) RunEntries(ctx context.Context, user string, at posthaste.Position, from, count int) ([]posthaste.RunEntry, error) {
	if t.lost("count of RunEntries") {
		count = -1
	}
	entries, err := t.Store.RunEntries(ctx, user, at, from, count)
	return altered(t.list, entries), err
}

func (t tampered) RunWaiters(ctx context.Context, user string, at posthaste.Position) ([]*posthaste.Waiter, error) {
	waiters, err := t.Store.RunWaiters(ctx, user, at)
	return altered(t.waiters, waiters), err
}

func (t tampered) EventWaiters(ctx context.Context, user, eventID string) ([]*posthaste.Waiter, error) {
	waiters, err := t.Store.EventWaiters(ctx, user, eventID)
	return altered(t.eventWaiters, waiters), err
}

func (t tampered) DueWaiters(ctx context.Context, now time.Time, limit int, except ...string) ([]store.DueWaiter, time.Time, error) {
	if t.dueNow != nil {
		t.dueNow(&now, &limit)
	}
	due, next, err := t.Store.DueWaiters(ctx, now, limit, except...)
	return altered(t.due, due), next, err
}

// losing loses all that some methods change.
func losing(methods ...string) tampered {
	return tampered{loses: func(method string) bool { return slices.Contains(methods, method) }}
}
