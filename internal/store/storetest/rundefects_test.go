package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/storetest/model"
)

func init() { maps.Copy(defects, runDefects) }

// runDefects are defects of stores that concern runs.
var runDefects = map[string]func(store.Store) store.Store{
	"Runs/every change that is saved is kept":                                   forgetting("Save"),
	"Runs/a run's states are in the log":                                        forgetting("Log"),
	"Runs/an id is that of its last run":                                        func(s store.Store) store.Store { return conservative{s} },
	"Runs/positions are given once and increase":                                throughTx(func(tx store.RunTx) store.RunTx { return stuck{tx} }),
	"Runs/what belongs to one user does not exist for another":                  func(s store.Store) store.Store { return ofAnn{s} },
	"RunTransactions/a transaction that fails writes nothing":                   func(s store.Store) store.Store { return hasty{s} },
	"RunTransactions/a settlement that fails writes nothing of all its run did": func(s store.Store) store.Store { return hasty{s} },
	"RunLists/entries are kept in order":                                        func(s store.Store) store.Store { return talkative{s} },
	"RunLists/a run remembers message ids":                                      forgetting("PutIdempotencyRecord"),
	"RunLists/an entry is delivered by its message":                             forgetting("message of Append"),
	"RunLists/a new message wakes who waits for one":                            func(s store.Store) store.Store { return sleepy{s} },
	"RunCancel/what has not been delivered is cancelled with its run":           forgetting("CancelDeliveries"),
	"RunCancel/what is in flight is left alone":                                 throughTx(func(tx store.RunTx) store.RunTx { return ruthless{tx} }),
	"RunCancel/only the run can cancel its messages":                            func(s store.Store) store.Store { return meddling{s} },
	"RunSettle/what a settlement means for its run is one commit with it": func(s store.Store) store.Store {
		return concluding{s, func(func(store.RunTx, *store.Settlement) error) func(store.RunTx, *store.Settlement) error {
			return nil
		}}
	},
	"RunSettle/what is concluded changes the settlement": func(s store.Store) store.Store {
		return concluding{s, func(conclude func(store.RunTx, *store.Settlement) error) func(store.RunTx, *store.Settlement) error {
			return func(tx store.RunTx, settlement *store.Settlement) error {
				other := *settlement
				return conclude(tx, &other)
			}
		}}
	},
	"RunWaiting/a waiter that has ended is gone":                           forgetting("EndWait"),
	"RunWaiting/waiters are due when their deadline comes":                 func(s store.Store) store.Store { return tardy{s} },
	"RunWaiting/a limit holds waiters back that are due":                   func(s store.Store) store.Store { return tardy{s} },
	"RunWaiting/events are kept in order until they are taken":             throughTx(func(tx store.RunTx) store.RunTx { return returning{tx} }),
	"RunWaiting/a run's events are forgotten together":                     forgetting("DropEvents"),
	"RunDLQ/a run that was taken out of the DLQ is not found there":        forgetting("RemoveFromDLQ"),
	"RunResponses/an answer is kept for a while":                           func(s store.Store) store.Store { return eternal{s} },
	"RunQueries/each field filters alone":                                  func(s store.Store) store.Store { return unfiltered{s} },
	"RunQueries/any set of fields filters any range, both ends included":   func(s store.Store) store.Store { return halfOpen{s} },
	"RunQueries/changes while a reader pages do not disturb it":            func(s store.Store) store.Store { return skipping{s} },
	"RunRetention/a run goes with all that belongs to it":                  func(s store.Store) store.Store { return keeping{s} },
	"RunRetention/a run goes by its end":                                   func(s store.Store) store.Store { return impatient{s} },
	"RunRetention/an entry of the DLQ of runs goes by its failure":         func(s store.Store) store.Store { return impatient{s} },
	"RunRetention/runs of others lose nothing":                             func(s store.Store) store.Store { return sweeping{s} },
	"RunEvents/events that tell of runs are found with those of runs only": func(s store.Store) store.Store { return unfiltered{s} },
}

// wrapped is a store whose transactions are tampered with, those of settlements too.
type wrapped struct {
	store.Store
	wrap func(store.RunTx) store.RunTx
}

func throughTx(wrap func(store.RunTx) store.RunTx) func(store.Store) store.Store {
	return func(s store.Store) store.Store { return wrapped{s, wrap} }
}

func (w wrapped) Transact(ctx context.Context, now time.Time, user string, change func(store.RunTx) error) error {
	return w.Store.Transact(ctx, now, user, func(tx store.RunTx) error { return change(w.wrap(tx)) })
}

func (w wrapped) Settle(ctx context.Context, now time.Time, settlement store.Settlement) error {
	if conclude := settlement.UpdateRun; conclude != nil {
		settlement.UpdateRun = func(tx store.RunTx, s *store.Settlement) error { return conclude(w.wrap(tx), s) }
	}
	return w.Store.Settle(ctx, now, settlement)
}

// forgetting makes a store that forgets all that one method writes.
func forgetting(method string) func(store.Store) store.Store {
	return throughTx(func(tx store.RunTx) store.RunTx {
		return forgetful{tx, func(called string) bool { return called == method }}
	})
}

// forgetful forgets some of what is written.
type forgetful struct {
	store.RunTx
	forgets func(method string) bool
}

func (f forgetful) Save(run *posthaste.Run) {
	if !f.forgets("Save") {
		f.RunTx.Save(run)
	}
}

func (f forgetful) Log(m *posthaste.Message, state posthaste.State, reason string) {
	if !f.forgets("Log") {
		f.RunTx.Log(m, state, reason)
	}
}

func (f forgetful) Append(run *posthaste.Run, entry posthaste.RunEntry, m *posthaste.Message) error {
	if m != nil && f.forgets("message of Append") {
		m.Run.Entry, m.Body, m = run.Entries, entry.Body, nil
	}
	return f.RunTx.Append(run, entry, m)
}

func (f forgetful) PutIdempotencyRecord(run *posthaste.Run, key string, id posthaste.MessageID) {
	if !f.forgets("PutIdempotencyRecord") {
		f.RunTx.PutIdempotencyRecord(run, key, id)
	}
}

func (f forgetful) CancelDeliveries(run *posthaste.Run, inFlight bool) error {
	if f.forgets("CancelDeliveries") {
		return nil
	}
	return f.RunTx.CancelDeliveries(run, inFlight)
}

func (f forgetful) Wait(w *posthaste.Waiter) {
	if f.forgets("Wait") {
		w.Position = f.NextPosition()
		return
	}
	f.RunTx.Wait(w)
}

func (f forgetful) EndWait(w *posthaste.Waiter) {
	if !f.forgets("EndWait") {
		f.RunTx.EndWait(w)
	}
}

func (f forgetful) BufferEvent(run posthaste.Position, eventID string, body []byte) {
	if !f.forgets("BufferEvent") {
		f.RunTx.BufferEvent(run, eventID, body)
	}
}

func (f forgetful) DropEvents(run posthaste.Position) error {
	if f.forgets("DropEvents") {
		return nil
	}
	return f.RunTx.DropEvents(run)
}

func (f forgetful) AddToDLQ(run *posthaste.Run, d *posthaste.DeadLetter) {
	if !f.forgets("AddToDLQ") {
		f.RunTx.AddToDLQ(run, d)
	}
}

func (f forgetful) RemoveFromDLQ(run *posthaste.Run) {
	if !f.forgets("RemoveFromDLQ") {
		f.RunTx.RemoveFromDLQ(run)
	}
}

// conservative knows the first run with an id.
type conservative struct{ store.Store }

func (c conservative) LatestRun(ctx context.Context, user, id string) (*posthaste.Run, error) {
	page, err := c.Runs(ctx, user, withFilter(allRuns, posthaste.Filter{RunIDs: []string{id}}))
	if err == nil && len(page.Runs) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return page.Runs[0], nil
}

// stuck gives one position to all.
type stuck struct{ store.RunTx }

func (s stuck) NextPosition() posthaste.Position { return posthaste.FirstPosition(s.Now()) }

// ofAnn keeps all runs for ann.
type ofAnn struct{ store.Store }

func (o ofAnn) Transact(ctx context.Context, now time.Time, _ string, change func(store.RunTx) error) error {
	return o.Store.Transact(ctx, now, ann, change)
}

// hasty writes although it failed.
type hasty struct{ store.Store }

func (h hasty) Transact(ctx context.Context, now time.Time, user string, change func(store.RunTx) error) error {
	var result error
	err := h.Store.Transact(ctx, now, user, func(tx store.RunTx) error {
		result = change(tx)
		return nil
	})
	return errors.Join(err, result)
}

func (h hasty) Settle(ctx context.Context, now time.Time, settlement store.Settlement) error {
	var result error
	conclude := settlement.UpdateRun
	if conclude == nil {
		return h.Store.Settle(ctx, now, settlement)
	}
	settlement.UpdateRun = func(tx store.RunTx, s *store.Settlement) error {
		result = conclude(tx, s)
		return nil
	}
	return errors.Join(h.Store.Settle(ctx, now, settlement), result)
}

// talkative returns more entries than were asked for.
type talkative struct{ store.Store }

func (t talkative) RunEntries(ctx context.Context, user string, at posthaste.Position, _ int) ([]posthaste.RunEntry, error) {
	return t.Store.RunEntries(ctx, user, at, -1)
}

// ruthless leaves nothing in flight alone.
type ruthless struct{ store.RunTx }

func (r ruthless) CancelDeliveries(run *posthaste.Run, _ bool) error {
	return r.RunTx.CancelDeliveries(run, true)
}

// meddling lets anybody cancel messages of runs.
type meddling struct{ store.Store }

func (m meddling) Cancel(ctx context.Context, now time.Time, user string, ids []posthaste.MessageID, _ *store.Step) (changed []posthaste.MessageID, err error) {
	err = m.Transact(ctx, now, user, func(tx store.RunTx) error {
		for _, id := range ids {
			if ok, err := tx.Cancel(id); err != nil || ok {
				changed = append(changed, id)
			}
		}
		return nil
	})
	return changed, err
}

// concluding makes another conclusion of each.
type concluding struct {
	store.Store
	other func(func(store.RunTx, *store.Settlement) error) func(store.RunTx, *store.Settlement) error
}

func (c concluding) Settle(ctx context.Context, now time.Time, settlement store.Settlement) error {
	if settlement.UpdateRun != nil {
		settlement.UpdateRun = c.other(settlement.UpdateRun)
	}
	return c.Store.Settle(ctx, now, settlement)
}

// tardy says that waiters are due after their time, and all at once.
type tardy struct{ store.Store }

func (t tardy) DueWaiters(ctx context.Context, now time.Time, _ int, except ...string) ([]store.DueWaiter, time.Time, error) {
	return t.Store.DueWaiters(ctx, now.Add(-time.Millisecond), plenty, except...)
}

// returning puts what it takes back, behind all else.
type returning struct{ store.RunTx }

func (r returning) TakeEvent(run posthaste.Position, eventID string) ([]byte, bool, error) {
	body, ok, err := r.RunTx.TakeEvent(run, eventID)
	if ok {
		r.BufferEvent(run, eventID, body)
	}
	return body, ok, err
}

// eternal lets no time pass for runs.
type eternal struct{ store.Store }

func (t eternal) Transact(ctx context.Context, _ time.Time, user string, change func(store.RunTx) error) error {
	return t.Store.Transact(ctx, start, user, change)
}

func (u unfiltered) Runs(ctx context.Context, user string, query store.RunQuery) (store.RunPage, error) {
	query.Filter = posthaste.Filter{}
	return u.Store.Runs(ctx, user, query)
}

func (h halfOpen) Runs(ctx context.Context, user string, query store.RunQuery) (store.RunPage, error) {
	query.High--
	return h.Store.Runs(ctx, user, query)
}

func (s skipping) Runs(ctx context.Context, user string, query store.RunQuery) (store.RunPage, error) {
	page, err := s.Store.Runs(ctx, user, query)
	if page.More && len(page.Runs) > 1 {
		page.Runs = page.Runs[1:]
		page.DeadLetters = page.DeadLetters[min(1, len(page.DeadLetters)):]
	}
	return page, err
}

// keeping removes nothing.
type keeping struct{ store.Store }

func (keeping) Trim(context.Context, string, store.Horizon) (store.Trimmed, error) {
	return store.Trimmed{Runs: 1}, nil
}

// impatient removes what is to be kept for another moment.
type impatient struct{ store.Store }

func (i impatient) Trim(ctx context.Context, user string, h store.Horizon) (store.Trimmed, error) {
	for _, at := range []*time.Time{&h.DeadLetters, &h.Runs} {
		if !at.IsZero() {
			*at = at.Add(time.Millisecond)
		}
	}
	return i.Store.Trim(ctx, user, h)
}

// sweeping removes what others have as well.
type sweeping struct{ store.Store }

func (s sweeping) Trim(ctx context.Context, user string, horizon store.Horizon) (store.Trimmed, error) {
	_, err := s.Store.Trim(ctx, anna, horizon)
	trimmed, own := s.Store.Trim(ctx, user, horizon)
	return trimmed, errors.Join(err, own)
}

// twice is no defect: it calls the function of a transaction a first time for
// nothing, as a backend may.
type twice struct{ store.Store }

func (t twice) Transact(ctx context.Context, now time.Time, user string, change func(store.RunTx) error) error {
	errOnce := errors.New("once more")
	err := t.Store.Transact(ctx, now, user, func(tx store.RunTx) error { return errors.Join(errOnce, change(tx)) })
	if !errors.Is(err, errOnce) {
		return err
	}
	return t.Store.Transact(ctx, now, user, change)
}

func (t twice) Settle(ctx context.Context, now time.Time, settlement store.Settlement) error {
	if conclude := settlement.UpdateRun; conclude != nil {
		errOnce := errors.New("once more")
		first := settlement
		first.UpdateRun = func(tx store.RunTx, s *store.Settlement) error { return errors.Join(errOnce, conclude(tx, s)) }
		if err := t.Store.Settle(ctx, now, first); !errors.Is(err, errOnce) {
			return err
		}
	}
	return t.Store.Settle(ctx, now, settlement)
}

// The checks themselves, and the model, bear that a transaction is tried twice.
func TestTransactionsMayBeTriedTwice(t *testing.T) {
	for _, p := range slices.Concat(runPromises, runAtomicPromises, runListPromises, runCancelPromises,
		runSettlePromises, runWaitingPromises, runDLQPromises, runResponsePromises, runRetentionPromises) {
		t.Run(p.name, func(t *testing.T) { try(t, twice{model.New()}, p.check) })
	}
	RunCrash(t, 10, func(*testing.T) Crashable {
		return &unreliable{model: model.New(), tamper: func(s store.Store, _ int) store.Store { return twice{s} }}
	})
}
