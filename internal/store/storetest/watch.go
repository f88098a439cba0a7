package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var watchPromises = []promise{
	{"the end is at or above all that was written, and below what follows", func(tr *trial) {
		for range 10 {
			before, _ := tr.watch(ann)
			m := tr.accept()
			at := tr.logOf(m)[0].Position
			if after, _ := tr.watch(ann); at <= before || at > after {
				tr.Errorf("an event at %d, the end was %d before and is %d after", at, before, after)
			}
		}
	}},
	{"every kind of change wakes who waits", func(tr *trial) {
		m, late := tr.message(), tr.accept(delayed(never))
		var claim store.Claim
		changes := []struct {
			name string
			make func()
		}{
			{"Accept", func() { tr.acceptAll(m) }},
			{"Claim", func() { claim = tr.claimOne(m) }},
			{"Settle", func() { tr.settle(store.Delivered(claim)) }},
			{"Cancel", func() { tr.cancel(late) }},
			{"Transact", func() { tr.start() }},
		}
		for _, change := range changes {
			_, grown := tr.watch(ann)
			change.make()
			tr.wantSignal(change.name, grown)
		}
	}},
	{"all who wait are woken", func(tr *trial) {
		var channels []<-chan struct{}
		for range 20 {
			_, grown := tr.watch(ann)
			channels = append(channels, grown)
		}
		tr.accept()
		for n, grown := range channels {
			tr.wantSignal(fmt.Sprintf("watcher %d", n), grown)
		}
	}},
	{"closing wakes who waits", func(tr *trial) {
		_, grown := tr.watch(ann)
		tr.ok(tr.store.Close())
		tr.wantSignal("Close", grown)
	}},
	{"who reads up to the end and waits misses nothing", checkWatching},
	{"a reader is shown the same events whether it watches or not", checkLatest},
}

func (tr *trial) watch(user string) (posthaste.Position, <-chan struct{}) {
	tr.Helper()
	end, grown, err := tr.store.Watch(tr.Context(), user)
	if err != nil {
		tr.Fatalf("Watch: %v", err)
	}
	return end, grown
}

// wantSignal waits for a channel to be closed.
func (tr *trial) wantSignal(what string, grown <-chan struct{}) {
	tr.Helper()
	select {
	case <-grown:
	case <-time.After(tr.patience):
		tr.Fatalf("%s: who waited was not woken", what)
	}
}

// checkWatching lets readers of two users wait for the log while several writers
// add to it. Each has read everything when it has read as many events as there
// are, which it only does if it is woken for the last one.
func checkWatching(tr *trial) {
	const writers, each = 4, 25
	var working sync.WaitGroup
	for _, user := range []string{ann, anna} {
		for n := range writers {
			makes := newMaker(uint64(300 + n))
			working.Go(func() {
				for range each {
					if err := accept(tr.Context(), tr.store, tr.now, makes.message(tr.now, ownedBy(user))); err != nil {
						tr.Error(err)
					}
				}
			})
		}
		working.Go(func() {
			seen, err := readWatching(tr.Context(), tr.store, user, writers*each)
			if err != nil || len(seen) != writers*each {
				tr.Errorf("%s has read %d events, %v, want %d", user, len(seen), err, writers*each)
			}
			if !slices.IsSorted(seen) || len(slices.Compact(seen)) != writers*each {
				tr.Errorf("%s has read events out of order or twice", user)
			}
		})
	}
	working.Wait()
}

// readWatching reads the log of a user up to its end, waits for it to grow, and
// so on until it has n events. It returns their positions.
func readWatching(ctx context.Context, s store.Store, user string, n int) (seen []posthaste.Position, err error) {
	query := store.EventQuery{OldestFirst: true, Limit: 10}
	for len(seen) < n {
		end, grown, err := s.Watch(ctx, user)
		if err != nil {
			return nil, err
		}
		query.High = end
		entries, err := readAll(ctx, s, user, query)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			seen = append(seen, e.Position)
		}
		query.Low = end + 1
		if len(seen) < n {
			<-grown
		}
	}
	return seen, nil
}

// checkLatest reads what was written since the log was watched, oldest first, which a store may
// have in memory, and latest first, which it has to read.
func checkLatest(tr *trial) {
	end, _ := tr.watch(ann)
	for range 3 {
		tr.settle(store.Delivered(tr.claimOne(tr.accept())))
		tr.accept(ownedBy(anna), delayed(never))
	}
	query := store.EventQuery{Low: end + 1, High: posthaste.MaxPosition, Limit: 2}
	stored := tr.events(ann, query)
	slices.Reverse(stored)
	query.OldestFirst = true
	tr.same("the latest events", stored, tr.events(ann, query))
}
