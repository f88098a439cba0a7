package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Crashable is a backend that can be crashed and opened again.
type Crashable interface {
	// Open opens the store as the last crash left it; the first time, it is
	// empty.
	Open() (store.Store, error)

	// Crash ends the open store without warning and takes away what was not yet
	// durable, or a part of it that the seed decides. Calls may be in progress;
	// they return, one way or another.
	Crash(seed int64)
}

// Environment variables that say which seeds RunCrash tries.
const (
	seedsVariable = "STORETEST_SEEDS" // how many, from 1 on; as many as usual if not set
	seedVariable  = "STORETEST_SEED"  // this one alone
)

// RunCrash tests that what a backend acknowledged survives crashes. For each
// seed it makes random changes, crashes the store in the middle of some, opens
// it again and compares what it finds with what was acknowledged:
//
//   - an acknowledged change is there, one of unknown fate is there whole or not
//     at all: messages, callbacks, dead letters, runs and all that belongs to them,
//     secrets; and Usage counts what is there;
//   - an event that was read before is there, and none appears before it;
//   - the lives of messages are legal, and all positions increase;
//   - messages that were claimed are due again, and the old leases are lost.
//
// A seed decides the changes; which of those in progress at a crash survive also
// depends on the machine. There are as many seeds as usual, unless STORETEST_SEEDS sets
// their number or STORETEST_SEED a single one.
func RunCrash(t *testing.T, usual int64, newCrashable func(t *testing.T) Crashable) {
	for _, seed := range seeds(t, usual) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			if err := crashTest(t.Context(), seed, newCrashable(t)); err != nil {
				t.Errorf("with %s=%d: %v", seedVariable, seed, err)
			}
		})
	}
}

// seeds returns those to be tried: so many unless the environment says otherwise.
func seeds(t *testing.T, n int64) []int64 {
	t.Helper()
	if one, ok := numberFrom(t, seedVariable); ok {
		return []int64{one}
	}
	if more, ok := numberFrom(t, seedsVariable); ok {
		n = more
	}
	all := make([]int64, n)
	for i := range all {
		all[i] = int64(i) + 1
	}
	return all
}

func numberFrom(t *testing.T, variable string) (n int64, ok bool) {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, a number from 1 on is expected", variable, text)
	}
	return n, true
}

// crashTest lives through some crashes and then brings every message to its end.
func crashTest(ctx context.Context, seed int64, c Crashable) error {
	const crashes = 4
	w := newWitness(uint64(seed))
	for range crashes {
		if err := w.open(ctx, c); err != nil {
			return err
		}
		if err := w.change(ctx, 20+w.rng.IntN(60)); err != nil {
			return err
		}
		w.crash(ctx, c)
	}
	if err := w.open(ctx, c); err != nil {
		return err
	}
	if err := w.drain(ctx); err != nil {
		return err
	}
	return errors.Join(audit(ctx, w.store, ann, w.accepted()), w.store.Close())
}

// open opens the store and compares it with what is known.
func (w *witness) open(ctx context.Context, c Crashable) (err error) {
	if w.store, err = c.Open(); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if err := w.wantLeasesLost(ctx); err != nil {
		return err
	}
	return w.compare(ctx)
}

// change makes so many random changes, one after the other.
func (w *witness) change(ctx context.Context, n int) error {
	actions := []func(context.Context) error{
		w.acceptSome, w.acceptSome, w.claimSome, w.claimSome, w.settleOne, w.settleOne, w.settleOne,
		w.releaseOne, w.cancelSome, w.keepSecret, w.read, w.passTime, w.changeRun, w.changeRun, w.changeRun,
	}
	for i := range n {
		if err := actions[w.rng.IntN(len(actions))](ctx); err != nil {
			return fmt.Errorf("change %d: %w", i+1, err)
		}
	}
	return nil
}

// crash begins some changes of different messages at once and crashes the store
// meanwhile. Those that return before the crash begins are acknowledged.
func (w *witness) crash(ctx context.Context, c Crashable) {
	var calls sync.WaitGroup
	var crashing atomic.Bool
	begun := make(chan struct{}, 1)
	w.unsettled = w.someChanges()
	for _, ch := range w.unsettled {
		calls.Go(func() {
			select {
			case begun <- struct{}{}:
			default:
			}
			err := ch.call(ctx, w.store)
			ch.acknowledged = err == nil && !crashing.Load()
		})
	}
	if len(w.unsettled) > 0 {
		<-begun
	}
	for range w.rng.IntN(3) {
		time.Sleep(time.Duration(w.rng.IntN(300)) * time.Microsecond) // let some get through
	}
	crashing.Store(true)
	c.Crash(w.rng.Int64())
	calls.Wait()
}

// someChanges prepares changes that touch no message and no run twice.
func (w *witness) someChanges() []*change {
	var changes []*change
	busy := map[*knownRun]bool{}
	free := w.living()
	w.rng.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	for _, k := range free[:min(len(free), 15)] {
		if busy[k.run] {
			continue
		}
		busy[k.run] = k.run != nil
		switch {
		case k.claim != nil && w.rng.IntN(4) > 0:
			changes = append(changes, w.settlement(k))
		case k.run != nil:
			changes = append(changes, w.runChange(k.run))
		default:
			changes = append(changes, w.cancellation([]*known{k}))
		}
	}
	for range w.rng.IntN(6) {
		changes = append(changes, w.acceptance(), w.start())
	}
	return changes
}

// drain lets time pass until every message has come to its end.
func (w *witness) drain(ctx context.Context) error {
	const rounds = 1000 // many times as many as any message needs
	for range rounds {
		w.now = w.now.Add(24 * time.Hour)
		if err := w.claimSome(ctx); err != nil {
			return err
		}
		claimed := w.claimed()
		for _, k := range claimed {
			if err := w.make(ctx, w.ending(k)); err != nil {
				return err
			}
		}
		if len(claimed) > 0 {
			continue
		}
		if err := w.compare(ctx); err != nil || len(w.living()) == 0 {
			return err
		}
	}
	return fmt.Errorf("%d messages are never handed out: %s", len(w.living()), w.living()[0].message.ID)
}

// wantLeasesLost requires that a claim of before the crash settles nothing.
func (w *witness) wantLeasesLost(ctx context.Context) error {
	for _, k := range w.claimed() {
		_, err := w.store.Settle(ctx, w.now, store.Delivered(*k.claim))
		if !errors.Is(err, store.ErrLeaseLost) {
			return fmt.Errorf("settle %s with a lease of before the crash: %v, want ErrLeaseLost", k.message.ID, err)
		}
		k.claim = nil
	}
	return nil
}

// accepted returns the ids of all messages that were accepted.
func (w *witness) accepted() []posthaste.MessageID {
	var ids []posthaste.MessageID
	for _, k := range w.all {
		if len(k.states) > 0 {
			ids = append(ids, k.message.ID)
		}
	}
	return ids
}
