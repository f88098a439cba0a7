package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/store/partition"
	"posthaste/internal/store/postgres"
	"posthaste/internal/telemetry"
)

// openStore opens the store that the options name, and makes the observer of what
// happens from now on.
func (a *App) openStore(ctx context.Context, options *Options, registry prometheus.Registerer) (*telemetry.Observer, store.Store, error) {
	if len(options.DatabaseURLs) == 0 {
		observer := telemetry.NewObserver(options.Log, registry)
		s, err := openDirectory(*options, observer)
		if err != nil {
			return nil, nil, err
		}
		return observer, ledger.New(s), nil
	}
	node := telemetry.NewNode(registry)
	options.Log = node.Label(options.Log)
	a.serveAll()
	s, err := openDatabase(ctx, *options, node, a.front)
	return telemetry.NewObserver(options.Log, registry), s, err
}

// openDirectory opens the store in a directory, which it makes private before.
func openDirectory(options Options, observer lsm.Observer) (*lsm.Store, error) {
	if err := os.MkdirAll(options.Data, privateDir); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	if err := makePrivate(options.Data, options.Log); err != nil {
		return nil, fmt.Errorf("make the data directory private: %w", err)
	}
	s, err := lsm.Open(options.Data, lsm.Options{
		CacheSize: options.CacheSize,
		Reserve:   options.DiskReserve,
		Memory:    messageMemory(options),
		Logger:    options.Log,
		Observer:  observer,
	})
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	return s, nil
}

// messageMemory returns how many bytes of large messages a server may have in flight.
func messageMemory(options Options) int { return int(memoryOf(options.MemoryLimit) / memoryParts) }

// How long a server pauses before it asks again for a database that did not answer.
const firstPause, longestPause = time.Second, 5 * time.Second

// openDatabase joins the nodes of a database. One that does not answer is waited for
// until ctx ends, and so is the clock of this node to be set right; what the database refuses
// is an error.
func openDatabase(ctx context.Context, options Options, node *telemetry.Node, front *front) (store.Store, error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		s, err := partition.Over(postgres.OpenDatabases(ctx, options.DatabaseURLs, postgres.Options{
			Connections: int32(options.Connections),
			Joined:      node.Joined,
			Clock:       node.Clock,
			Memory:      messageMemory(options),
			Partitions:  store.Partitions(options.Partitions),
			Lease:       options.NodeLease,
			Logger:      options.Log,

			ClaimAccepted: true,
		}))
		switch {
		case err == nil:
			return ledger.New(s), nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.Is(err, store.ErrUnavailable):
			return nil, fmt.Errorf("open the database: %w", err)
		}
		front.awaits(err)
		options.Log.Warn("database.awaited", "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// ownSlotOf returns how to choose a slot that this node serves, nil if it serves all.
func ownSlotOf(s store.Store) posthaste.OwnSlot {
	if own, ok := backendOf(s).(interface {
		OwnSlot(user string, slot posthaste.Slot) posthaste.Slot
	}); ok {
		return own.OwnSlot
	}
	return nil
}

// handOver has the other nodes of a database serve what this one has served.
func handOver(ctx context.Context, s store.Store) error {
	if node, ok := backendOf(s).(interface{ Drain(context.Context) error }); ok {
		return node.Drain(ctx)
	}
	return nil
}

// clockOf returns what time it is for everybody who uses a store: for a database, that of the
// database.
func clockOf(s store.Store) func() time.Time {
	if own, ok := backendOf(s).(interface{ Now() time.Time }); ok {
		return own.Now
	}
	return time.Now
}

// roomOf returns how to ask a store whether there is room for new work, nil for one that
// does not know.
func roomOf(s store.Store) func() error {
	if watched, ok := backendOf(s).(interface{ Room() error }); ok {
		return watched.Room
	}
	return nil
}

// backendOf returns what is below the rules and the division of users, or the store itself if that has
// no backend.
func backendOf(s store.Store) any {
	l, ok := s.(*ledger.Ledger)
	if !ok {
		return s
	}
	if divided, ok := l.Backend.(*partition.Store); ok {
		return divided.Below()
	}
	return l.Backend
}
