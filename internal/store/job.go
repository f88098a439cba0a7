package store

import (
	"context"
	"time"
)

// Jobs assigns work that any process could do to one of them.
type Jobs interface {
	// TryLease leases a job to the caller for the ttl and reports whether it succeeded. The owner
	// may renew it; others get it when it expires or its owner has ended. A job must be safe to
	// run twice: it may outlive its lease.
	TryLease(ctx context.Context, job string, held time.Duration) (bool, error)
}
