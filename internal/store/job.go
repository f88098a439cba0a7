package store

import (
	"context"
	"time"
)

// Jobs lets one of several processes do what any of them could, and one is enough.
type Jobs interface {
	// TryLease makes a job the caller's for so long from now on, and reports whether it
	// could: the process that holds a job can hold it for longer, and another gets it when
	// that time is over or that process has ended. A job that was held for too short a
	// time may be done twice, so doing it twice must do no harm.
	TryLease(ctx context.Context, job string, held time.Duration) (bool, error)
}
