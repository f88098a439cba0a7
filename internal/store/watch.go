package store

import (
	"context"

	"posthaste"
)

// Watcher notifies readers of new log entries.
type Watcher interface {
	// Watch returns the end of a user's log, and a channel that closes when the log may have
	// grown or the store is closed.
	//
	// Events already shows what is at or below end, also after a crash; later events are above
	// it. So a reader that reads up to end and then waits misses nothing. Waiting readers do not
	// slow down writers.
	Watch(ctx context.Context, user string) (end posthaste.Position, grown <-chan struct{}, err error)
}
