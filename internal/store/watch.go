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
}
