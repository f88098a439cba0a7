package postgres

import (
	"context"
	"sync/atomic"
	"time"
)

// aside is work in the turns of users that a claim finds to be done before all is due that
// should be, and that may have to wait for turns which somebody else keeps. It is done once
// at a time.
type backgroundTask struct{ running atomic.Bool }

// do does the work unless it is being done, and reports whether it has begun it: it returns
// when that is done, or the patience of the store is at its end. What fails is logged, and
// may be done again after a while.
func (a *backgroundTask) run(ctx context.Context, s *Store, work func(context.Context) error) (begun bool) {
	if !a.running.CompareAndSwap(false, true) {
		return false
	}
	done := make(chan struct{})
	s.loops.Go(func() {
		err := work(s.closing)
		if err == nil {
			a.running.Store(false)
			close(done)
			return
		}
		close(done)
		s.logger.Warn("leases.kept", "error", err)
		select {
		case <-s.closing.Done():
		case <-time.After(aliveEvery):
		}
		a.running.Store(false)
		s.signal()
	})
	enough := time.NewTimer(s.patience)
	defer enough.Stop()
	select {
	case <-done:
	case <-enough.C:
	case <-ctx.Done():
	}
	return true
}
