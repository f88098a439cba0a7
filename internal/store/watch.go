package store

import (
	"context"

	"posthaste"
)

// Watcher tells who reads the log that there is more to read, so that many can
// follow it and nobody has to ask again and again.
type Watcher interface {
	// Watch returns the end of a user's log, and a channel that is closed when the
	// log may have grown beyond it, or when the store is closed.
	//
	// Events shows what is at or below the end already, and goes on showing it
	// after a crash; whatever is written later is above. A reader who has read up
	// to the end and waits for the channel therefore misses nothing. Waiting holds
	// nothing back: to a writer it is the same how many wait, and for how long.
	Watch(ctx context.Context, user string) (end posthaste.Position, grown <-chan struct{}, err error)

	// Latest returns what Events does, from memory alone, which costs so little that all
	// who follow the log may ask at the same time. ok is false where that is not possible,
	// as always in a store that keeps no events in memory: Events has the answer then.
	Latest(ctx context.Context, user string, query EventQuery) (page EventPage, ok bool, err error)
}
