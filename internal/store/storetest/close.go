package storetest

import (
	"context"
	"errors"
	"sync"

	"posthaste"
	"posthaste/internal/store"
)

var closePromises = []promise{
	{"closing twice is harmless", func(tr *trial) {
		for range 2 {
			if err := tr.store.Close(); err != nil {
				tr.Errorf("Close = %v", err)
			}
		}
	}},
	{"calls on a closed store fail", func(tr *trial) {
		m := tr.accept()
		claim := tr.claimOne(m)
		if err := tr.store.Close(); err != nil {
			tr.Fatal(err)
		}
		for name, call := range callsOf(tr.Context(), tr.store, claim) {
			if err := call(); !errors.Is(err, store.ErrClosed) {
				tr.Errorf("%s on a closed store = %v, want ErrClosed", name, err)
			}
		}
	}},
	{"calls in progress fail or succeed", func(tr *trial) {
		var calling sync.WaitGroup
		begun := make(chan struct{}, 1)
		for n := range 8 {
			makes := newMaker(uint64(200 + n))
			calling.Go(func() {
				for {
					err := accept(tr.Context(), tr.store, tr.now, makes.message(tr.now))
					if errors.Is(err, store.ErrClosed) {
						return
					}
					if err != nil {
						tr.Errorf("Accept while closing = %v, want none or ErrClosed", err)
						return
					}
					select {
					case begun <- struct{}{}:
					default:
					}
				}
			})
		}
		<-begun
		if err := tr.store.Close(); err != nil {
			tr.Error(err)
		}
		calling.Wait()
	}},
}

// callsOf lists calls of a store's methods.
func callsOf(ctx context.Context, s store.Store, claim store.Claim) map[string]func() error {
	m, now := claim.Message, claim.Message.CreatedAt
	user, fresh := m.User, newMaker(98).message(now)
	return map[string]func() error{
		"Accept": func() error { return accept(ctx, s, now, fresh) },
		"Claim": func() error {
			_, _, err := s.Claim(ctx, now, 1)
			return err
		},
		"Settle":  func() error { return s.Settle(ctx, now, store.Delivered(claim)) },
		"Cancel":  func() error { return errorOf(s.Cancel(ctx, now, user, []posthaste.MessageID{m.ID}, nil)) },
		"RunNow":  func() error { return s.RunNow(ctx, now, user, m.ID) },
		"Message": func() error { return errorOf(s.Message(ctx, user, m.ID)) },
		"Events": func() error {
			return errorOf(store.ReadEvents(ctx, s, user, store.EventQuery{High: posthaste.MaxPosition, Limit: 1}))
		},
		"Watch": func() error {
			_, _, err := s.Watch(ctx, user)
			return err
		},
		"LiveMessages": func() error {
			_, _, err := s.LiveMessages(ctx, user, store.LiveQuery{Limit: 1})
			return err
		},
		"DeadLetters": func() error {
			return errorOf(s.DeadLetters(ctx, user, store.DeadLetterQuery{High: posthaste.MaxPosition, Limit: 1}))
		},
		"DeadLetter": func() error { return errorOf(s.DeadLetter(ctx, user, 1)) },
		"DeleteDeadLetters": func() error {
			return errorOf(s.DeleteDeadLetters(ctx, user, []posthaste.DeadLetterID{1}, nil))
		},
		"RetryDeadLetters": func() error {
			return errorOf(s.RetryDeadLetters(ctx, now, user, []posthaste.DeadLetterID{1}, nil, nil))
		},
		"UpdateQueue": func() error {
			return s.UpdateQueue(ctx, now, user, "q", func(*posthaste.Queue) error { return nil })
		},
		"Queue":       func() error { return errorOf(s.Queue(ctx, user, "q")) },
		"Queues":      func() error { return errorOf(s.Queues(ctx, user, "")) },
		"QueueNames":  func() error { return errorOf(s.QueueNames(ctx, user)) },
		"DeleteQueue": func() error { return s.DeleteQueue(ctx, now, user, "q") },
		"UpdateFlowKey": func() error {
			return s.UpdateFlowKey(ctx, now, user, "k", func(*posthaste.FlowKey) error { return nil })
		},
		"FlowKey":       func() error { return errorOf(s.FlowKey(ctx, now, user, "k")) },
		"DeleteFlowKey": func() error { return s.DeleteFlowKey(ctx, user, "k") },
		"FlowKeys":      func() error { return errorOf(s.FlowKeys(ctx, now, user, "", "")) },
		"UpdateURLGroup": func() error {
			return s.UpdateURLGroup(ctx, now, user, "g", func(*posthaste.URLGroup) error { return nil })
		},
		"URLGroup":       func() error { return errorOf(s.URLGroup(ctx, user, "g")) },
		"URLGroups":      func() error { return errorOf(s.URLGroups(ctx, user, "")) },
		"DeleteURLGroup": func() error { return s.DeleteURLGroup(ctx, user, "g") },
		"UpdateSchedule": func() error {
			return s.UpdateSchedule(ctx, now, user, "s", func(*posthaste.Schedule) error { return nil })
		},
		"Schedule":       func() error { return errorOf(s.Schedule(ctx, user, "s")) },
		"Schedules":      func() error { return errorOf(s.Schedules(ctx, user, "")) },
		"DeleteSchedule": func() error { return s.DeleteSchedule(ctx, user, "s") },
		"DueSchedules": func() error {
			_, _, err := s.DueSchedules(ctx, now, 1)
			return err
		},
		"Tick": func() error {
			return s.Tick(ctx, now, &posthaste.Schedule{}, &posthaste.Schedule{ID: "s", User: user}, []*posthaste.Message{fresh})
		},
		"Transact":   func() error { return s.Transact(ctx, now, user, func(store.RunTx) error { return nil }) },
		"Run":        func() error { return errorOf(s.Run(ctx, user, 1)) },
		"LatestRun":  func() error { return errorOf(s.LatestRun(ctx, user, "r")) },
		"RunEntries": func() error { return errorOf(s.RunEntries(ctx, user, 1, -1)) },
		"Runs": func() error {
			return errorOf(s.Runs(ctx, user, store.RunQuery{High: posthaste.MaxPosition, Limit: 1}))
		},
		"EventWaiters": func() error { return errorOf(s.EventWaiters(ctx, user, "e")) },
		"RunWaiters":   func() error { return errorOf(s.RunWaiters(ctx, user, 1)) },
		"DueWaiters": func() error {
			_, _, err := s.DueWaiters(ctx, now, 1)
			return err
		},
		"PutAction":            func() error { return s.PutAction(ctx, &posthaste.BulkAction{ID: "a", User: user}) },
		"Action":               func() error { return errorOf(s.Action(ctx, user, "a")) },
		"Actions":              func() error { return errorOf(s.Actions(ctx, user)) },
		"UnfinishedActions":    func() error { return errorOf(s.UnfinishedActions(ctx)) },
		"UpdateAction":         func() error { return s.UpdateAction(ctx, user, "a", func(*posthaste.BulkAction) {}) },
		"DeleteActions":        func() error { return s.DeleteActions(ctx, now) },
		"TryLease":             func() error { return errorOf(s.TryLease(ctx, "job", 1)) },
		"Secret":               func() error { return errorOf(s.Secret(ctx, "key")) },
		"PutSecretIfAbsent":    func() error { return errorOf(s.PutSecretIfAbsent(ctx, "key", "value")) },
		"CompareAndSwapSecret": func() error { return s.CompareAndSwapSecret(ctx, "key", "old", "new") },
		"Users":                func() error { return errorOf(s.Users(ctx)) },
		"Usage":                func() error { return errorOf(s.Usage(ctx, user)) },
		"Usage of all":         func() error { return errorOf(s.Usage(ctx, "")) },
		"Ping":                 func() error { return s.Ping(ctx) },
		"Stats":                func() error { return errorOf(s.Stats(ctx, now)) },
	}
}

// errorOf drops what a call answers.
func errorOf[T any](_ T, err error) error { return err }
