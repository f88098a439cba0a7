package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// The dispatch loop goes round when the store wakes it, when a slot becomes free,
// when the next message is due, and at least every heartbeat, so that Healthy can
// tell a loop with nothing to do from one that hangs.
const (
	heartbeat  = 5 * time.Second
	claimPause = time.Second // after the store failed to hand out messages
)

// dispatch hands due messages to attempts until the engine stops.
func (e *Engine) dispatch() {
	timer := time.NewTimer(heartbeat)
	defer timer.Stop()
	for {
		now := e.options.Now()
		e.beat.Store(now.UnixMilli())
		timer.Reset(e.untilNext(e.runOnce(now)))
		select {
		case <-e.claiming.Done():
			return
		case <-e.options.Store.Wake():
		case <-e.freed:
		case <-timer.C:
		}
	}
}

// untilNext returns how long the loop may rest, which is never nothing: a timer that has run
// out before it is waited for crashes the race detector in tests with a fake clock
// (golang/go#78156).
func (e *Engine) untilNext(next time.Time) time.Duration {
	if next.IsZero() || e.freeSlots() == 0 {
		return heartbeat
	}
	return min(max(time.Nanosecond, next.Sub(e.options.Now())), heartbeat)
}

func (e *Engine) freeSlots() int {
	return max(0, e.options.Concurrency-int(e.inflight.Load()))
}

// runOnce claims as many due messages as there are free slots and starts an
// attempt for each. It returns when it should be called again, the zero time if
// nothing waits.
func (e *Engine) runOnce(now time.Time) time.Time {
	free := e.freeSlots()
	if free == 0 {
		return time.Time{}
	}
	// Stop must not cut a claim short: what it leases it is also to log.
	claims, next, err := e.options.Store.Claim(e.attempts, now, free)
	for _, claim := range claims {
		e.start(claim)
	}
	if err != nil && e.attempts.Err() == nil {
		e.logClaimFailed(now, err)
		return nextBesideError(next, now, len(claims))
	}
	return next
}

// logClaimFailed logs that the store failed to hand out messages, once a claimPause: the store
// wakes the loop for what others can do as well, many times a second.
func (e *Engine) logClaimFailed(now time.Time, err error) {
	if pause := now.Sub(e.claimFailedAt); pause >= 0 && pause < claimPause {
		return
	}
	e.claimFailedAt = now
	e.options.Logger.Error("claim.failed", "error", err)
}

// nextBesideError returns when to claim again after something went wrong: when the store
// said, for others wait beside that, and after a pause at the latest. A store that handed
// out nothing and says now may mean what went wrong, and is not asked again at once.
func nextBesideError(next, now time.Time, claims int) time.Time {
	pause := now.Add(claimPause)
	if claims == 0 && !next.After(now) {
		return pause
	}
	return earlier(next, pause)
}

// mostResting is how many goroutines that have made an attempt are kept for another.
const mostResting = 64

// flight is an attempt that is made.
type flight struct {
	store.Claim
	beforeStop bool // it belongs to the cohort of that name
}

// start makes an attempt in a goroutine that rests, or else in a new one. That of a
// new one costs more: its stack has to grow to what HTTP and the log need.
func (e *Engine) start(claim store.Claim) {
	e.inflight.Add(1)
	f := flight{claim, e.beforeStop.join()}
	select {
	case e.rested <- f:
	default:
		e.running.Go(func() { e.work(f) })
	}
}

// work makes an attempt, then rests until there is another one to be made. It returns
// when no more are to come, or when enough others rest.
func (e *Engine) work(f flight) {
	for {
		e.attempt(f.Claim)
		e.land(f)
		if e.resting.Add(1) > mostResting {
			e.resting.Add(-1)
			return
		}
		select {
		case f = <-e.rested:
			e.resting.Add(-1)
		case <-e.claiming.Done():
			return
		}
	}
}

// attempt delivers a claimed message once and settles the claim.
func (e *Engine) attempt(claim store.Claim) {
	ctx, end := e.held(claim)
	defer end()
	m := e.prepare(ctx, claim)
	if m == nil {
		return
	}
	if ctx.Err() != nil {
		e.release(claim)
		return
	}
	e.options.Observer.AttemptStarted()
	report := AttemptReport{Message: claim.Message, Retried: claim.Retried, StartedAt: e.options.Now()}
	report.Outcome = e.options.Dispatcher.Attempt(ctx, m, claim.Retried)
	report.State = posthaste.StateActive
	defer func() { e.options.Observer.AttemptFinished(report) }()
	if ctx.Err() != nil {
		e.release(claim)
		return
	}
	if settled := e.settle(e.decide(claim, report.Outcome)); settled != nil {
		report.State, report.NextAt = settled.State, settled.NextAt
	}
}

// held returns a context that ends when attempts in flight are to be abandoned, or the
// claim may be somebody else's.
func (e *Engine) held(claim store.Claim) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(e.attempts)
	if claim.Held == nil {
		return ctx, cancel
	}
	if claim.Held.Err() != nil {
		cancel() // before anything is sent
	}
	stop := context.AfterFunc(claim.Held, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// prepare returns a claimed message as it is to be sent, or nil when there is
// nothing to be sent and the claim is ended.
func (e *Engine) prepare(ctx context.Context, claim store.Claim) *posthaste.Message {
	if claim.Message.Run == nil {
		return claim.Message
	}
	m, err := e.options.Runs.Prepare(ctx, claim.Message)
	if err != nil {
		e.options.Logger.Error("prepare.failed", "message_id", claim.Message.ID, "error", err)
		select {
		case <-time.After(claimPause): // it will be claimed again at once
		case <-ctx.Done():
		}
		e.release(claim)
		return nil
	}
	if m == nil {
		e.settle(store.Dropped(claim))
	}
	return m
}

// decide says what an outcome means.
func (e *Engine) decide(claim store.Claim, outcome posthaste.Outcome) store.Settlement {
	now := e.now()
	if claim.Message.Run != nil {
		return e.options.Runs.Settle(claim, outcome, now)
	}
	settlement := Decide(claim, outcome, now)
	settlement.Callbacks = e.callbacks(claim, settlement.State, outcome.Response, now)
	return settlement
}

// land gives back what an attempt in flight holds.
func (e *Engine) land(f flight) {
	if f.beforeStop {
		e.beforeStop.leave()
	}
	e.inflight.Add(-1)
	select {
	case e.freed <- struct{}{}:
	default:
	}
}

// settle writes a settlement down, trying again while the store has trouble: an
// outcome that is not written is an attempt made in vain. It returns the settlement as
// it stands, nil if none does. If the lease is gone after a try of which the store could
// not tell what became, it was that try that ended it, unless somebody else may have the
// message.
func (e *Engine) settle(settlement store.Settlement) *store.Settlement {
	const firstPause, longestPause = 50 * time.Millisecond, 5 * time.Second
	var stands atomic.Pointer[store.Settlement] // a try that was given up may still tell
	settlement.Settled = func(s store.Settlement) { stands.Store(&s) }
	unknown := false
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := e.options.Store.Settle(e.attempts, e.options.Now(), settlement)
		claim := settlement.Claim
		if err == nil || unknown && errors.Is(err, store.ErrLeaseLost) && (claim.Held == nil || claim.Held.Err() == nil) {
			return stands.Load()
		}
		unknown = unknown || errors.Is(err, store.ErrUnavailable)
		e.options.Logger.Error("settle.failed", "message_id", claim.Message.ID, "error", err)
		if errors.Is(err, store.ErrLeaseLost) || errors.Is(err, store.ErrClosed) {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-e.attempts.Done():
			return nil
		}
	}
}

// release gives a claim back when its attempt was abandoned.
func (e *Engine) release(claim store.Claim) {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.options.Store.Release(ctx, e.options.Now(), []store.Claim{claim}); err != nil {
		e.options.Logger.Error("release.failed", "message_id", claim.Message.ID, "error", err)
	}
}
