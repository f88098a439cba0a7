package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var healthPromises = []promise{
	{"a ping leaves nothing behind", func(tr *trial) {
		m := tr.accept()
		for range 3 {
			if err := tr.store.Ping(tr.Context()); err != nil {
				tr.Fatalf("Ping: %v", err)
			}
		}
		tr.same("log", "CREATED", statesText(tr.wholeLog(m.User)))
	}},
	{"an empty store has nothing to count", func(tr *trial) {
		tr.wantStats(store.Stats{})
	}},
	{"stats count claims, lanes and what is late", func(tr *trial) {
		first := tr.accept(sentTo("http://a.example/"))
		tr.accept(sentTo("http://a.example/"), delayed(time.Minute))
		tr.accept(sentTo("http://b.example/"), delayed(time.Hour))
		tr.wait(time.Second)
		tr.wantStats(store.Stats{Lanes: 2, OldestDueAt: first.NotBefore})
		claim := tr.claimOne(first)
		tr.wantStats(store.Stats{Lanes: 2, InFlight: 1})
		tr.settle(store.Delivered(claim))
		tr.wantStats(store.Stats{Lanes: 2})
		tr.wait(2 * time.Minute)
		tr.wantStats(store.Stats{Lanes: 2, OldestDueAt: first.NotBefore.Add(time.Minute)})
	}},
	{"a lane whose messages have ended is not counted", func(tr *trial) {
		delivered, cancelled := tr.accept(), tr.accept(delayed(time.Hour))
		tr.settle(store.Delivered(tr.claimOne(delivered)))
		tr.wantCancels(1, cancelled)
		tr.wantStats(store.Stats{})
	}},
	{"a released claim is not in flight", func(tr *trial) {
		m := tr.accept()
		tr.release(tr.claimOne(m))
		tr.wait(time.Second)
		tr.wantStats(store.Stats{Lanes: 1, OldestDueAt: m.NotBefore})
	}},
	{"claims in flight are counted for each user", func(tr *trial) {
		tr.accept()
		tr.accept()
		tr.accept(ownedBy(anna))
		tr.claim(plenty)
		for user, want := range map[string]int{ann: 2, anna: 1, "an": 0} {
			if got, err := tr.store.InFlight(tr.Context(), user); err != nil || got != want {
				tr.Errorf("InFlight of %q = %d, %v, want %d", user, got, err, want)
			}
		}
	}},
}

// wantStats compares all but the size on disk, which only must not be negative.
func (tr *trial) wantStats(want store.Stats) {
	tr.Helper()
	got, err := tr.store.Stats(tr.Context(), tr.now)
	if err != nil || got.DiskBytes < 0 {
		tr.Fatalf("Stats = %+v, %v", got, err)
	}
	got.DiskBytes = 0
	tr.same("stats", want, got)
}

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
		for name, call := range callsOf(tr.store, claim) {
			if err := call(tr.Context()); !errors.Is(err, store.ErrClosed) {
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
					err := accept(context.WithoutCancel(tr.Context()), tr.store, tr.now, makes.message(tr.now))
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
func callsOf(s store.Store, claim store.Claim) map[string]func(context.Context) error {
	now, m := claim.Message.CreatedAt, claim.Message
	fresh := newMaker(98).message(now)
	return map[string]func(context.Context) error{
		"Accept": func(ctx context.Context) error { return accept(ctx, s, now, fresh) },
		"Claim": func(ctx context.Context) error {
			_, _, err := s.Claim(ctx, now, 1)
			return err
		},
		"Settle": func(ctx context.Context) error { return s.Settle(ctx, now, store.Delivered(claim)) },
		"Cancel": func(ctx context.Context) error {
			_, err := s.Cancel(ctx, now, m.User, []posthaste.MessageID{m.ID}, nil)
			return err
		},
		"Message": func(ctx context.Context) error {
			_, err := s.Message(ctx, m.User, m.ID)
			return err
		},
		"Events": func(ctx context.Context) error {
			_, err := s.Events(ctx, m.User, store.EventQuery{High: posthaste.MaxPosition, Limit: 1})
			return err
		},
		"LiveMessages": func(ctx context.Context) error {
			_, _, err := s.LiveMessages(ctx, m.User, store.LiveQuery{Limit: 1})
			return err
		},
		"DeadLetters": func(ctx context.Context) error {
			_, err := s.DeadLetters(ctx, m.User, store.DeadLetterQuery{High: posthaste.MaxPosition, Limit: 1})
			return err
		},
		"Secret": func(ctx context.Context) error {
			_, err := s.Secret(ctx, "key")
			return err
		},
		"KeepSecret": func(ctx context.Context) error {
			_, err := s.KeepSecret(ctx, "key", "value")
			return err
		},
		"ReplaceSecret": func(ctx context.Context) error { return s.ReplaceSecret(ctx, "key", "old", "new") },
		"Ping":          s.Ping,
		"Stats": func(ctx context.Context) error {
			_, err := s.Stats(ctx, now)
			return err
		},
	}
}
