package storetest

import (
	"cmp"
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/storetest/model"
)

// A suite is as good as the defects it finds. Each of these is a model that
// breaks a promise; the promise's check has to fail on it.

// Defects of several promises.
var (
	lateClaims = with(tampered{claimed: func(_ time.Time, _ int, claims []store.Claim, next *time.Time) []store.Claim {
		*next = time.Time{}
		return claims
	}})
	sleepy = with(tampered{
		loses: func(method string) bool { return method == "Wake" },
		watch: func(_ *posthaste.Position, grown *<-chan struct{}) { *grown = nil },
	})
	hoarder    = with(losing("DeleteDeadLetters", "DeleteURLGroup", "Close"))
	agreeing   = with(tampered{hides: store.ErrConflict})
	leaseless  = with(tampered{hides: store.ErrLeaseLost})
	unfiltered = with(tampered{query: func(filter *posthaste.Filter, _ *posthaste.Position) { *filter = posthaste.Filter{} }})
	halfOpen   = with(tampered{query: func(_ *posthaste.Filter, high *posthaste.Position) { *high-- }})
	// skipping loses something between two pages.
	skipping = with(tampered{
		page: func(_ store.EventQuery, page *store.EventPage) {
			if page.More && len(page.Entries) > 1 {
				page.Entries = page.Entries[:len(page.Entries)-1]
			}
		},
		runs: func(_ store.RunQuery, page *store.RunPage) {
			if page.More && len(page.Runs) > 1 {
				page.Runs = page.Runs[1:]
				page.DeadLetters = page.DeadLetters[min(1, len(page.DeadLetters)):]
			}
		},
	})
	tardy = with(tampered{dueNow: func(now *time.Time, limit *int) { *now, *limit = now.Add(-time.Millisecond), plenty }})
	// impatient removes what is to be kept for another moment.
	impatient = with(tampered{trim: func(h *store.Horizon) {
		for _, at := range []*time.Time{&h.DeadLetters, &h.Runs} {
			if !at.IsZero() {
				*at = at.Add(time.Millisecond)
			}
		}
	}})
)

// eachMessage changes what is accepted.
func eachMessage(edit func(*posthaste.Message)) func(store.Store) store.Store {
	return with(tampered{submission: func(s *store.Submission) {
		for _, m := range s.Messages {
			edit(m)
		}
	}})
}

// eachEntry changes what is read of the log.
func eachEntry(edit func(*store.Entry)) func(store.Store) store.Store {
	return with(tampered{page: func(_ store.EventQuery, page *store.EventPage) {
		for i := range page.Entries {
			edit(&page.Entries[i])
		}
	}})
}

func settling(edit func(*store.Settlement)) func(store.Store) store.Store {
	return with(tampered{settlement: edit})
}

// defects maps a promise, as the suite names it, to a store that breaks it.
var defects = map[string]func(store.Store) store.Store{
	"Accept/every field is kept": eachEntry(func(e *store.Entry) {
		m := *e.Message
		m.Labels = nil
		e.Message = &m
	}),
	"Accept/a repeated submission is answered with the ids of the first": with(tampered{submission: func(s *store.Submission) { s.DedupKey = "" }}),
	"Accept/what belongs to one user does not exist for another":         func(s store.Store) store.Store { return oneForAll{s} },
	"Claim/a message is due at its NotBefore":                            eachMessage(func(m *posthaste.Message) { m.NotBefore = m.CreatedAt }),
	"Claim/a leased message is not given twice":                          releasing,
	"Claim/lanes are served in turn within a claim":                      lanesInRow,
	"Claim/no more than the limit are handed out":                        with(tampered{claim: func(_ *time.Time, limit *int) { *limit++ }}),
	"Claim/next is when the next message is due":                         lateClaims,
	"Claim/wakes for an accepted message":                                sleepy,
	"Settle/a retry is due at its time and counts the attempts": with(tampered{claimed: func(_ time.Time, _ int, claims []store.Claim, _ *time.Time) []store.Claim {
		for i := range claims {
			claims[i].Retried = 0
		}
		return claims
	}}),
	"Settle/the last failure is logged as ERROR and FAILED, both with the reason": settling(func(s *store.Settlement) { s.Response = nil }),
	"Settle/what a settlement has become is told":                                 func(s store.Store) store.Store { return unresolved{s} },
	"LeaseLost/a claim settles once":                                              leaseless,
	"Concurrency/a claim settles once":                                            leaseless,
	"Release/a released message is due at once, with the attempts it had":         with(losing("Release")),
	"Cancel/asking again changes nothing":                                         func(s store.Store) store.Store { return boastful{s} },
	"Message/says how a message ended":                                            with(tampered{status: func(s *store.Status) { s.State = posthaste.StateCreated }}),
	"Callbacks/callbacks of every settlement are accepted with it":                settling(func(s *store.Settlement) { s.Callbacks = nil }),
	"DeadLetters/deleted dead letters are gone":                                   hoarder,
	"DeadLetters/a dead letter that is named twice has one result, also if it cannot be retried": func(s store.Store) store.Store {
		return repetitive{s}
	},
	"Actions/a step of an action that is gone changes nothing":          func(s store.Store) store.Store { return lenient{s} },
	"DeadLetterQueries/each field filters alone":                        unfiltered,
	"LiveMessages/every filter finds what matches":                      unfiltered,
	"Events/each field filters alone":                                   unfiltered,
	"Events/pages of every size make the same log":                      skipping,
	"Events/any set of fields filters any range, both ends included":    halfOpen,
	"Events/what was visited does not change afterwards":                func(s store.Store) store.Store { return &careless{Store: s} },
	"Events/a visitor that fails ends the call":                         func(s store.Store) store.Store { return stubborn{s} },
	"Positions/an event is logged at the time it is told":               eachEntry(func(e *store.Entry) { e.Position = posthaste.FirstPosition(e.Position.Time().Add(time.Second)) }),
	"Pages/pages of the log hold no more than they may":                 with(tampered{eventQuery: func(q *store.EventQuery) { q.Bytes = math.MaxInt }}),
	"Watch/all who wait are woken":                                      sleepy,
	"Watch/a reader is shown the same events whether it watches or not": func(s store.Store) store.Store { return stale{s} },
	"Watch/the end is at or above all that was written, and below what follows": with(tampered{
		watch: func(end *posthaste.Position, _ *<-chan struct{}) { *end = posthaste.MaxPosition },
	}),
	"Queues/messages begin in the order of acceptance, one by one":      eachMessage(func(m *posthaste.Message) { m.Queue = "" }),
	"FlowKeys/attempts in flight stay within the parallelism":           eachMessage(func(m *posthaste.Message) { m.FlowControl.Key = "" }),
	"URLGroups/a deleted group is gone":                                 hoarder,
	"Schedules/a tick of a schedule that is not due then is a conflict": agreeing,
	"Schedules/a tick undoes no change of the schedule it was made of":  func(s store.Store) store.Store { return tickingBlindly{s} },
	"Concurrency/a tick takes place once":                               agreeing,
	"Vault/a value that was replaced by someone else is a conflict":     agreeing,
	"Actions/a step counts what it changed, with the change":            func(s store.Store) store.Store { return boastful{s} },
	"Health/stats count claims, lanes and what is late":                 with(losing("Stats")),
	"Usage/events are counted by day, from the first one on":            with(tampered{usage: func(u *store.Usage) { u.Days = u.Days[:1] }}),
	"Usage/dead letters are counted until they leave":                   with(tampered{usage: func(u *store.Usage) { u.DeadLetters.Oldest = start }}),
	"Close/calls on a closed store fail":                                hoarder,

	"Runs/every change that is saved is kept":                                   forgetting("Save"),
	"Runs/a run's states are in the log":                                        forgetting("Log"),
	"Runs/an id is that of its last run":                                        func(s store.Store) store.Store { return conservative{s} },
	"Runs/positions are given once and increase":                                throughTx(func(tx store.RunTx) store.RunTx { return stuck{tx} }),
	"Runs/what belongs to one user does not exist for another":                  with(tampered{transaction: func(_ *time.Time, user *string) { *user = ann }}),
	"RunTransactions/a transaction that fails writes nothing":                   func(s store.Store) store.Store { return hasty{s} },
	"RunTransactions/a settlement that fails writes nothing of all its run did": func(s store.Store) store.Store { return hasty{s} },
	"RunLists/entries are kept in order":                                        with(losing("count of RunEntries")),
	"RunLists/a run remembers message ids":                                      forgetting("PutIdempotencyRecord"),
	"RunLists/an entry is delivered by its message":                             forgetting("message of Append"),
	"RunLists/a new message wakes who waits for one":                            sleepy,
	"RunCancel/what has not been delivered is cancelled with its run":           forgetting("CancelDeliveries"),
	"RunCancel/what is in flight is left alone":                                 throughTx(func(tx store.RunTx) store.RunTx { return ruthless{tx} }),
	"RunCancel/only the run can cancel its messages":                            func(s store.Store) store.Store { return meddling{s} },
	"RunSettle/what a settlement means for its run is one commit with it":       settling(func(s *store.Settlement) { s.UpdateRun = nil }),
	"RunSettle/what is concluded changes the settlement": settling(func(s *store.Settlement) {
		if update := s.UpdateRun; update != nil {
			s.UpdateRun = func(tx store.RunTx, s *store.Settlement) error {
				other := *s
				return update(tx, &other)
			}
		}
	}),
	"RunWaiting/a waiter that has ended is gone":                               forgetting("EndWait"),
	"RunWaiting/waiters are due when their deadline comes":                     tardy,
	"RunWaiting/a limit holds waiters back that are due":                       tardy,
	"RunWaiting/events are kept in order until they are taken":                 throughTx(func(tx store.RunTx) store.RunTx { return returning{tx} }),
	"RunWaiting/a run's events are forgotten together":                         forgetting("DropEvents"),
	"RunDLQ/a run that was taken out of the DLQ is not found there":            forgetting("RemoveFromDLQ"),
	"RunResponses/an answer is kept for a while":                               with(tampered{transaction: func(now *time.Time, _ *string) { *now = start }}),
	"RunQueries/each field filters alone":                                      unfiltered,
	"RunQueries/any set of fields filters any range, both ends included":       halfOpen,
	"FailedRunQueries/any set of fields filters any range, both ends included": halfOpen,
	"RunQueries/changes while a reader pages do not disturb it":                skipping,
	"RunRetention/a run goes with all that belongs to it":                      with(losing("Trim")),
	"RunRetention/a run goes by its end":                                       impatient,
	"RunRetention/an entry of the DLQ of runs goes by its failure":             impatient,
	"RunRetention/runs of others lose nothing":                                 func(s store.Store) store.Store { return sweeping{s} },
	"RunEvents/events that tell of runs are found with those of runs only":     unfiltered,
}

func TestSuiteFindsDefects(t *testing.T) {
	checks := map[string]func(*trial){}
	for _, group := range promises {
		for _, p := range group.trials {
			checks[group.name+"/"+p.name] = p.check
		}
	}
	for promise, breaking := range defects {
		t.Run(promise, func(t *testing.T) {
			t.Parallel()
			check := checks[promise]
			if check == nil {
				t.Fatal("the suite has no such promise")
			}
			found := failed(t, func(t testing.TB) {
				tr := newTrial(t, breaking(model.New()))
				tr.patience = 100 * time.Millisecond
				tr.try(check)
			})
			if !found {
				t.Error("the check does not fail")
			}
		})
	}
}

// failed reports whether a check fails.
func failed(t *testing.T, check func(testing.TB)) bool {
	found := &verdict{TB: t}
	done := make(chan struct{})
	go func() { // FailNow ends it
		defer close(done)
		check(found)
	}()
	<-done
	return found.Failed()
}

// verdict takes down whether a check failed, in place of the test that runs it.
type verdict struct {
	testing.TB
	failed atomic.Bool
}

func (v *verdict) Fail()                 { v.failed.Store(true) }
func (v *verdict) Failed() bool          { return v.failed.Load() }
func (v *verdict) FailNow()              { v.Fail(); runtime.Goexit() }
func (v *verdict) Error(...any)          { v.Fail() }
func (v *verdict) Errorf(string, ...any) { v.Fail() }
func (v *verdict) Fatal(...any)          { v.FailNow() }
func (v *verdict) Fatalf(string, ...any) { v.FailNow() }
func (v *verdict) Logf(string, ...any)   {}

// releasing gives back what it handed out.
func releasing(s store.Store) store.Store {
	return tampered{Store: s, claimed: func(now time.Time, _ int, claims []store.Claim, _ *time.Time) []store.Claim {
		_ = s.Release(context.Background(), now, claims)
		return claims
	}}
}

// lanesInRow serves one lane after the other.
func lanesInRow(s store.Store) store.Store {
	return tampered{Store: s,
		claim: func(_ *time.Time, limit *int) { *limit = plenty },
		claimed: func(now time.Time, limit int, claims []store.Claim, _ *time.Time) []store.Claim {
			slices.SortStableFunc(claims, func(a, b store.Claim) int {
				return cmp.Compare(a.Message.Lane().Kind, b.Message.Lane().Kind)
			})
			if len(claims) > limit {
				_ = s.Release(context.Background(), now, claims[limit:])
				claims = claims[:limit]
			}
			return claims
		},
	}
}

func throughTx(wrap func(store.RunTx) store.RunTx) func(store.Store) store.Store {
	return with(tampered{tx: wrap})
}

// forgetting makes a store that forgets all that one method writes.
func forgetting(method string) func(store.Store) store.Store {
	return throughTx(func(tx store.RunTx) store.RunTx {
		return forgetful{tx, func(called string) bool { return called == method }}
	})
}

// oneForAll shows the messages of every user to every other.
type oneForAll struct{ store.Store }

func (o oneForAll) Message(ctx context.Context, _ string, id posthaste.MessageID) (status store.Status, err error) {
	for _, user := range []string{ann, anna} {
		if status, err = o.Store.Message(ctx, user, id); err == nil {
			return status, nil
		}
	}
	return status, err
}

// stale has nothing new for those who read the log as it grows.
type stale struct{ store.Store }

func (s stale) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	if query.OldestFirst && query.Low > 0 {
		return 0, false, nil
	}
	return s.Store.Events(ctx, user, query, visit)
}

// unresolved tells what was asked for, not what a settlement has become.
type unresolved struct{ store.Store }

func (u unresolved) Settle(ctx context.Context, now time.Time, settlement store.Settlement) (store.Settlement, error) {
	_, err := u.Store.Settle(ctx, now, settlement)
	return settlement, err
}

// boastful says it cancelled all it was asked to, and forgets steps.
type boastful struct{ store.Store }

func (b boastful) Cancel(ctx context.Context, now time.Time, user string, ids []posthaste.MessageID, _ *store.Step) ([]posthaste.MessageID, error) {
	_, err := b.Store.Cancel(ctx, now, user, ids, nil)
	return ids, err
}

// repetitive retries a dead letter as often as it is named.
type repetitive struct{ store.Store }

func (r repetitive) RetryDeadLetters(ctx context.Context, now time.Time, user string, ids []posthaste.DeadLetterID,
	remake func(*posthaste.DeadLetter) (*posthaste.Message, error), step store.Progress,
) (results []store.Retried, err error) {
	for _, id := range ids {
		one, oneErr := r.Store.RetryDeadLetters(ctx, now, user, []posthaste.DeadLetterID{id}, remake, step)
		results, err = append(results, one...), errors.Join(err, oneErr)
	}
	return results, err
}

// lenient makes a change whose bulk action is gone without counting it.
type lenient struct{ store.Store }

func (l lenient) Cancel(ctx context.Context, now time.Time, user string, ids []posthaste.MessageID, step *store.Step) ([]posthaste.MessageID, error) {
	changed, err := l.Store.Cancel(ctx, now, user, ids, step)
	if errors.Is(err, store.ErrNotFound) {
		return l.Store.Cancel(ctx, now, user, ids, nil)
	}
	return changed, err
}

// careless uses the memory of messages that it has shown for others.
type careless struct {
	store.Store
	mu    sync.Mutex
	shown []*posthaste.Message
}

func (c *careless) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.shown {
		m.Body = nil
	}
	c.shown = nil
	return c.Store.Events(ctx, user, query, func(entry *store.Entry) error {
		own := *entry.Message
		entry.Message, c.shown = &own, append(c.shown, &own)
		return visit(entry)
	})
}

// stubborn goes on when a visitor fails.
type stubborn struct{ store.Store }

func (s stubborn) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	var failed error
	next, more, err = s.Store.Events(ctx, user, query, func(entry *store.Entry) error {
		failed = errors.Join(failed, visit(entry))
		return nil
	})
	return next, more, errors.Join(err, failed)
}

// tickingBlindly takes a schedule for unchanged that is due at the same time as before.
type tickingBlindly struct{ store.Store }

func (f tickingBlindly) Tick(ctx context.Context, now time.Time, before, after *posthaste.Schedule, messages []*posthaste.Message) error {
	stored, err := f.Schedule(ctx, before.User, before.ID)
	if err == nil && stored.NextAt.Equal(before.NextAt) {
		before = stored
	}
	return f.Store.Tick(ctx, now, before, after, messages)
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
		w.Position = f.NextPosition(w.Run.Position.Slot())
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

func (s stuck) NextPosition(posthaste.Slot) posthaste.Position {
	return posthaste.FirstPosition(s.Now())
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

func (h hasty) Settle(ctx context.Context, now time.Time, settlement store.Settlement) (store.Settlement, error) {
	var result error
	conclude := settlement.UpdateRun
	if conclude == nil {
		return h.Store.Settle(ctx, now, settlement)
	}
	settlement.UpdateRun = func(tx store.RunTx, s *store.Settlement) error {
		result = conclude(tx, s)
		return nil
	}
	settled, err := h.Store.Settle(ctx, now, settlement)
	return settled, errors.Join(err, result)
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

// returning puts what it takes back, behind all else.
type returning struct{ store.RunTx }

func (r returning) TakeEvent(run posthaste.Position, eventID string) ([]byte, bool, error) {
	body, ok, err := r.RunTx.TakeEvent(run, eventID)
	if ok {
		r.BufferEvent(run, eventID, body)
	}
	return body, ok, err
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

func (t twice) Settle(ctx context.Context, now time.Time, settlement store.Settlement) (store.Settlement, error) {
	if conclude := settlement.UpdateRun; conclude != nil {
		errOnce := errors.New("once more")
		first := settlement
		first.UpdateRun = func(tx store.RunTx, s *store.Settlement) error { return errors.Join(errOnce, conclude(tx, s)) }
		if settled, err := t.Store.Settle(ctx, now, first); !errors.Is(err, errOnce) {
			return settled, err
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
