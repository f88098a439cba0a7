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

// defects maps a promise, as the suite names it, to a store that breaks it.
var defects = map[string]func(store.Store) store.Store{
	"Accept/every field is kept": func(s store.Store) store.Store {
		return altered{Store: s, entries: func(entries []store.Entry) []store.Entry {
			for i := range entries {
				m := *entries[i].Message
				m.Labels = nil
				entries[i].Message = &m
			}
			return entries
		}}
	},
	"Accept/a repeated submission is answered with the ids of the first": func(s store.Store) store.Store {
		return edited{s, func(s *store.Submission) { s.DedupKey = "" }}
	},
	"Accept/what belongs to one user does not exist for another": func(s store.Store) store.Store { return oneForAll{s} },
	"Claim/a message is due at its NotBefore": func(s store.Store) store.Store {
		return edited{s, func(s *store.Submission) {
			for _, m := range s.Messages {
				m.NotBefore = m.CreatedAt
			}
		}}
	},
	"Claim/a leased message is not given twice": func(s store.Store) store.Store {
		return claiming{s, func(now time.Time, limit int) ([]store.Claim, time.Time, error) {
			claims, next, err := s.Claim(context.Background(), now, limit)
			return claims, next, errors.Join(err, s.Release(context.Background(), now, claims))
		}}
	},
	"Claim/lanes are served in turn within a claim": lanesInRow,
	"Claim/no more than the limit are handed out": func(s store.Store) store.Store {
		return claiming{s, func(now time.Time, limit int) ([]store.Claim, time.Time, error) {
			return s.Claim(context.Background(), now, limit+1)
		}}
	},
	"Claim/next is when the next message is due": func(s store.Store) store.Store {
		return claiming{s, func(now time.Time, limit int) ([]store.Claim, time.Time, error) {
			claims, _, err := s.Claim(context.Background(), now, limit)
			return claims, time.Time{}, err
		}}
	},
	"Claim/wakes for an accepted message": func(s store.Store) store.Store { return sleepy{s} },
	"Settle/a retry is due at its time and counts the attempts": func(s store.Store) store.Store {
		return claiming{s, func(now time.Time, limit int) ([]store.Claim, time.Time, error) {
			claims, next, err := s.Claim(context.Background(), now, limit)
			for i := range claims {
				claims[i].Retried = 0
			}
			return claims, next, err
		}}
	},
	"Settle/the last failure is logged as ERROR and FAILED, both with the reason": func(s store.Store) store.Store {
		return settling{s, func(settlement store.Settlement) error {
			settlement.Response = nil
			return s.Settle(context.Background(), start, settlement)
		}}
	},
	"Settle/what a settlement has become is told": func(s store.Store) store.Store {
		return settling{s, func(settlement store.Settlement) error {
			told := settlement
			settlement.Settled = func(store.Settlement) { told.NotifySettled() } // that it is what it was
			return s.Settle(context.Background(), start, settlement)
		}}
	},
	"LeaseLost/a claim settles once":   settlesAnything,
	"Concurrency/a claim settles once": settlesAnything,
	"Release/a released message is due at once, with the attempts it had": func(s store.Store) store.Store {
		return unreleased{s}
	},
	"Cancel/asking again changes nothing": func(s store.Store) store.Store { return boastful{s} },
	"Message/says how a message ended":    func(s store.Store) store.Store { return altered{Store: s, status: alwaysCreated} },
	"Callbacks/callbacks of every settlement are accepted with it": func(s store.Store) store.Store {
		return settling{s, func(settlement store.Settlement) error {
			settlement.Callbacks = nil
			return s.Settle(context.Background(), start, settlement)
		}}
	},
	"DeadLetters/deleted dead letters are gone": func(s store.Store) store.Store { return hoarder{s} },
	"DeadLetters/a dead letter that is named twice has one result, also if it cannot be retried": func(s store.Store) store.Store {
		return repetitive{s}
	},
	"Actions/a step of an action that is gone changes nothing":          func(s store.Store) store.Store { return lenient{s} },
	"DeadLetterQueries/each field filters alone":                        func(s store.Store) store.Store { return unfiltered{s} },
	"LiveMessages/every filter finds what matches":                      func(s store.Store) store.Store { return unfiltered{s} },
	"Events/each field filters alone":                                   func(s store.Store) store.Store { return unfiltered{s} },
	"Events/pages of every size make the same log":                      func(s store.Store) store.Store { return skipping{s} },
	"Events/any set of fields filters any range, both ends included":    func(s store.Store) store.Store { return halfOpen{s} },
	"Events/what was visited does not change afterwards":                func(s store.Store) store.Store { return &careless{Store: s} },
	"Events/a visitor that fails ends the call":                         func(s store.Store) store.Store { return stubborn{s} },
	"Positions/an event is logged at the time it is told":               late,
	"Pages/pages of the log hold no more than they may":                 func(s store.Store) store.Store { return generous{s} },
	"Watch/all who wait are woken":                                      func(s store.Store) store.Store { return sleepy{s} },
	"Watch/a reader is shown the same events whether it watches or not": func(s store.Store) store.Store { return stale{s} },
	"Watch/the end is at or above all that was written, and below what follows": func(s store.Store) store.Store {
		return ahead{s}
	},
	"Queues/messages begin in the order of acceptance, one by one": func(s store.Store) store.Store {
		return edited{s, func(s *store.Submission) {
			for _, m := range s.Messages {
				m.Queue = ""
			}
		}}
	},
	"FlowKeys/attempts in flight stay within the parallelism": func(s store.Store) store.Store {
		return edited{s, func(s *store.Submission) {
			for _, m := range s.Messages {
				m.FlowControl.Key = ""
			}
		}}
	},
	"URLGroups/a deleted group is gone":                                 func(s store.Store) store.Store { return hoarder{s} },
	"Schedules/a tick of a schedule that is not due then is a conflict": func(s store.Store) store.Store { return agreeing{s} },
	"Schedules/a tick undoes no change of the schedule it was made of":  func(s store.Store) store.Store { return tickingBlindly{s} },
	"Concurrency/a tick takes place once":                               func(s store.Store) store.Store { return agreeing{s} },
	"Vault/a value that was replaced by someone else is a conflict":     func(s store.Store) store.Store { return agreeing{s} },
	"Actions/a step counts what it changed, with the change":            func(s store.Store) store.Store { return boastful{s} },
	"Health/stats count claims, lanes and what is late":                 func(s store.Store) store.Store { return blind{s} },
	"Usage/events are counted by day, from the first one on": func(s store.Store) store.Store {
		return measured{s, func(u *store.Usage) { u.Days = u.Days[:1] }}
	},
	"Usage/dead letters are counted until they leave": func(s store.Store) store.Store {
		return measured{s, func(u *store.Usage) { u.DeadLetters.Oldest = start }}
	},
	"Close/calls on a closed store fail": func(s store.Store) store.Store { return hoarder{s} },
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
			if found := findings(t, breaking(model.New()), check); !found.Failed() {
				t.Error("the check does not fail")
			}
		})
	}
}

// findings runs a promise's check on a store, and returns whether it failed.
func findings(t *testing.T, s store.Store, check func(*trial)) *verdict {
	found := &verdict{TB: t}
	done := make(chan struct{})
	go func() { // FailNow ends it
		defer close(done)
		tr := newTrial(found, s)
		tr.patience = 100 * time.Millisecond
		tr.try(check)
	}()
	<-done
	return found
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

// edited changes what is accepted.
type edited struct {
	store.Store
	edit func(*store.Submission)
}

func (e edited) Accept(ctx context.Context, now time.Time, submissions []store.Submission) ([]store.Accepted, error) {
	for i := range submissions {
		messages := slices.Clone(submissions[i].Messages)
		for j, m := range messages {
			edited := *m
			messages[j] = &edited
		}
		submissions[i].Messages = messages
		e.edit(&submissions[i])
	}
	return e.Store.Accept(ctx, now, submissions)
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

// claiming claims in its own way.
type claiming struct {
	store.Store
	claim func(now time.Time, limit int) ([]store.Claim, time.Time, error)
}

func (c claiming) Claim(_ context.Context, now time.Time, limit int) ([]store.Claim, time.Time, error) {
	return c.claim(now, limit)
}

// lanesInRow serves one lane after the other.
func lanesInRow(s store.Store) store.Store {
	return claiming{s, func(now time.Time, limit int) ([]store.Claim, time.Time, error) {
		claims, next, err := s.Claim(context.Background(), now, plenty)
		slices.SortStableFunc(claims, func(a, b store.Claim) int {
			return cmp.Compare(a.Message.Lane().Kind, b.Message.Lane().Kind)
		})
		if len(claims) > limit {
			err = errors.Join(err, s.Release(context.Background(), now, claims[limit:]))
			claims = claims[:limit]
		}
		return claims, next, err
	}}
}

// sleepy never wakes anybody.
type sleepy struct{ store.Store }

func (sleepy) Wake() <-chan struct{} { return nil }

func (s sleepy) Watch(ctx context.Context, user string) (posthaste.Position, <-chan struct{}, error) {
	end, _, err := s.Store.Watch(ctx, user)
	return end, nil, err
}

// ahead says that the log can be read beyond what is there.
type ahead struct{ store.Store }

func (a ahead) Watch(ctx context.Context, user string) (posthaste.Position, <-chan struct{}, error) {
	_, grown, err := a.Store.Watch(ctx, user)
	return posthaste.MaxPosition, grown, err
}

// stale has nothing new for those who read the log as it grows.
type stale struct{ store.Store }

func (s stale) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	if query.OldestFirst && query.Low > 0 {
		return 0, false, nil
	}
	return s.Store.Events(ctx, user, query, visit)
}

// settling settles in its own way.
type settling struct {
	store.Store
	settle func(store.Settlement) error
}

func (s settling) Settle(_ context.Context, _ time.Time, settlement store.Settlement) error {
	return s.settle(settlement)
}

// settlesAnything does not mind a lost lease.
func settlesAnything(s store.Store) store.Store {
	return settling{s, func(settlement store.Settlement) error {
		return except(s.Settle(context.Background(), start, settlement), store.ErrLeaseLost)
	}}
}

// unreleased keeps claims.
type unreleased struct{ store.Store }

func (unreleased) Release(context.Context, time.Time, []store.Claim) error { return nil }

// boastful says it cancelled all it was asked to, and forgets steps.
type boastful struct{ store.Store }

func (b boastful) Cancel(ctx context.Context, now time.Time, user string, ids []posthaste.MessageID, _ *store.Step) ([]posthaste.MessageID, error) {
	_, err := b.Store.Cancel(ctx, now, user, ids, nil)
	return ids, err
}

func alwaysCreated(s *store.Status) { s.State = posthaste.StateCreated }

// hoarder gives nothing up.
type hoarder struct{ store.Store }

func (hoarder) DeleteDeadLetters(_ context.Context, _ string, ids []posthaste.DeadLetterID, _ store.Progress) ([]posthaste.DeadLetterID, error) {
	return ids[:1], nil
}

func (hoarder) DeleteURLGroup(context.Context, string, string) error { return nil }

func (hoarder) Close() error { return nil }

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

// unfiltered answers every query as if it had no filter.
type unfiltered struct{ store.Store }

func (u unfiltered) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	query.Filter = posthaste.Filter{}
	return u.Store.Events(ctx, user, query, visit)
}

func (u unfiltered) DeadLetters(ctx context.Context, user string, query store.DeadLetterQuery) (store.DeadLetterPage, error) {
	query.Filter = posthaste.Filter{}
	return u.Store.DeadLetters(ctx, user, query)
}

func (u unfiltered) LiveMessages(ctx context.Context, user string, query store.LiveQuery) ([]posthaste.MessageID, string, error) {
	query.Filter = posthaste.Filter{}
	return u.Store.LiveMessages(ctx, user, query)
}

// generous lets pages of the log hold any number of bytes.
type generous struct{ store.Store }

func (s generous) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	query.Bytes = math.MaxInt
	return s.Store.Events(ctx, user, query, visit)
}

// skipping loses an event between two pages.
type skipping struct{ store.Store }

func (s skipping) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	page, err := store.ReadEvents(ctx, s.Store, user, query)
	if err != nil {
		return 0, false, err
	}
	if page.More && len(page.Entries) > 1 {
		page.Entries = page.Entries[:len(page.Entries)-1]
	}
	return page.Visit(visit)
}

// halfOpen leaves the upper end out of a range.
type halfOpen struct{ store.Store }

func (h halfOpen) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	query.High--
	return h.Store.Events(ctx, user, query, visit)
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

// late logs events a second after their time.
func late(s store.Store) store.Store {
	return altered{Store: s, entries: func(entries []store.Entry) []store.Entry {
		for i := range entries {
			entries[i].Position = posthaste.FirstPosition(entries[i].Position.Time().Add(time.Second))
		}
		return entries
	}}
}

// agreeing sees no conflicts.
type agreeing struct{ store.Store }

func (a agreeing) Tick(ctx context.Context, now time.Time, before, after *posthaste.Schedule, messages []*posthaste.Message) error {
	return except(a.Store.Tick(ctx, now, before, after, messages), store.ErrConflict)
}

func (a agreeing) CompareAndSwapSecret(ctx context.Context, key, old, value string) error {
	return except(a.Store.CompareAndSwapSecret(ctx, key, old, value), store.ErrConflict)
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

// blind counts nothing.
type blind struct{ store.Store }

func (blind) Stats(context.Context, time.Time) (store.Stats, error) { return store.Stats{}, nil }

// measured tells another usage than there is.
type measured struct {
	store.Store
	alter func(*store.Usage)
}

func (m measured) Usage(ctx context.Context, user string) (store.Usage, error) {
	u, err := m.Store.Usage(ctx, user)
	m.alter(&u)
	return u, err
}
