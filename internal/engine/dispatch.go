package engine

import (
	"context"
	"errors"
	"posthaste/internal/backoff"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// The dispatch loop runs when the store wakes it, a slot becomes free or a message is due, and at
// least every heartbeat, so that Healthy can detect a hanging loop.
const (
	heartbeat  = 5 * time.Second
	claimPause = time.Second // after a failed claim
)

// dispatch starts attempts for due messages until the engine stops.
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

// untilNext returns how long the loop may sleep. It is never 0: a timer that fires before it is
// waited for crashes the race detector in tests with a fake clock (golang/go#78156).
func (e *Engine) untilNext(next time.Time) time.Duration {
	if next.IsZero() || e.freeSlots() == 0 {
		return heartbeat
	}
	return min(max(time.Nanosecond, next.Sub(e.options.Now())), heartbeat)
}

func (e *Engine) freeSlots() int {
	return max(0, e.options.Concurrency-int(e.inflight.Load()))
}

// runOnce claims messages for all free slots and starts an attempt for each. It returns when to
// run again, zero if nothing waits.
func (e *Engine) runOnce(now time.Time) time.Time {
	free := e.freeSlots()
	if free == 0 {
		return time.Time{}
	}
	// not e.claiming: a claim that Stop interrupted could lease messages without logging them
	claims, next, err := e.options.Store.Claim(e.attempts, now, free)
	for _, claim := range claims {
		e.start(claim)
	}
	if err != nil && e.attempts.Err() == nil {
		e.logClaimFailed(now, err)
		return nextAfterError(next, now, len(claims))
	}
	return next
}

// logClaimFailed logs at most once per claimPause, because other users' messages wake the loop
// many times a second.
func (e *Engine) logClaimFailed(now time.Time, err error) {
	if pause := now.Sub(e.claimFailedAt); pause >= 0 && pause < claimPause {
		return
	}
	e.claimFailedAt = now
	e.options.Logger.Log(context.Background(), store.LogLevel(err), "claim.failed", "error", err)
}

// nextAfterError returns when to claim again after an error: at next, because other messages
// wait, but after claimPause at the latest. If nothing was claimed and next is now, it waits
// claimPause.
func nextAfterError(next, now time.Time, claims int) time.Time {
	pause := now.Add(claimPause)
	if claims == 0 && !next.After(now) {
		return pause
	}
	return store.Earlier(next, pause)
}

// maxIdle is how many idle worker goroutines are kept.
const maxIdle = 64

// flight is an attempt in progress.
type flight struct {
	store.Claim
	beforeStop bool // counted by Engine.beforeStop
}

// start runs an attempt in an idle worker, else in a new one, which costs more: its stack has to
// grow.
func (e *Engine) start(claim store.Claim) {
	e.inflight.Add(1)
	f := flight{claim, e.beforeStop.join()}
	select {
	case e.idleWorkers <- f:
	default:
		e.running.Go(func() { e.work(f) })
	}
}

// work makes attempts until the engine stops claiming or enough other workers are idle.
func (e *Engine) work(f flight) {
	for {
		e.attempt(f.Claim)
		e.finish(f)
		if e.idle.Add(1) > maxIdle {
			e.idle.Add(-1)
			return
		}
		select {
		case f = <-e.idleWorkers:
			e.idle.Add(-1)
		case <-e.claiming.Done():
			return
		}
	}
}

// attempt delivers a claimed message once and settles the claim.
func (e *Engine) attempt(claim store.Claim) {
	ctx, end := e.leaseContext(claim)
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
	if unsigned := report.Outcome.Unsigned; errors.Is(unsigned, store.ErrUnavailable) {
		e.giveBack(ctx, claim, "sign.failed", unsigned) // the destination has failed at nothing
		return
	}
	settlement, err := e.decide(claim, report.Outcome)
	if err != nil {
		e.giveBack(ctx, claim, "callback.failed", err)
		return
	}
	settlement.Attempt = report.Outcome.Attempt()
	if settled, ok := e.settle(settlement); ok {
		report.State, report.NextAt = settled.State, settled.NextAt
	}
}

// leaseContext returns a context that ends when attempts are abandoned or the lease may be lost.
func (e *Engine) leaseContext(claim store.Claim) (context.Context, context.CancelFunc) {
	if claim.Held == nil {
		return e.attempts, func() {}
	}
	ctx, cancel := context.WithCancel(e.attempts)
	if claim.Held.Err() != nil {
		cancel()
	}
	stop := context.AfterFunc(claim.Held, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// prepare returns a claimed message as it is sent, or nil if the claim has been ended.
func (e *Engine) prepare(ctx context.Context, claim store.Claim) *posthaste.Message {
	if claim.Message.Run == nil {
		return claim.Message
	}
	m, err := e.options.Runs.Prepare(ctx, claim.Message)
	if err != nil {
		e.giveBack(ctx, claim, "prepare.failed", err)
		return nil
	}
	if m == nil {
		e.settle(store.Dropped(claim))
	}
	return m
}

// giveBack releases a claim that could not be attempted or settled.
func (e *Engine) giveBack(ctx context.Context, claim store.Claim, event string, err error) {
	e.options.Logger.Log(ctx, store.LogLevel(err), event, "message_id", claim.Message.ID, "error", err)
	select {
	case <-time.After(claimPause): // because it is due again at once
	case <-ctx.Done():
	}
	e.release(claim)
}

func (e *Engine) decide(claim store.Claim, outcome posthaste.Outcome) (settlement store.Settlement, err error) {
	now := e.now()
	if claim.Message.Run != nil {
		return e.options.Runs.Settle(claim, outcome, now), nil
	}
	settlement = Decide(claim, outcome, now)
	settlement.Callbacks, err = e.callbacks(claim, settlement.State, outcome.Response, now)
	return settlement, err
}

// finish frees the slot of an attempt.
func (e *Engine) finish(f flight) {
	if f.beforeStop {
		e.beforeStop.leave()
	}
	e.inflight.Add(-1)
	select {
	case e.freed <- struct{}{}:
	default:
	}
}

// settle stores a settlement, retrying until the engine abandons attempts. It returns what it
// became, if that is known. ErrLeaseLost after a try with unknown result means that this try took
// effect, unless the lease may have been given to another node.
func (e *Engine) settle(settlement store.Settlement) (settled store.Settlement, ok bool) {
	const firstPause, longestPause = 50 * time.Millisecond, time.Second
	claim, unknown := settlement.Claim, false
	var tried store.Settlement // what it became in the last try with unknown result
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		settled, err := e.options.Store.Settle(e.attempts, e.options.Now(), settlement)
		if err == nil {
			return settled, true
		}
		if unknown && errors.Is(err, store.ErrLeaseLost) && (claim.Held == nil || claim.Held.Err() == nil) {
			return tried, tried.State != ""
		}
		if errors.Is(err, store.ErrUnavailable) {
			unknown = true
			if settled.State != "" {
				tried = settled
			}
		}
		e.options.Logger.Log(context.Background(), store.LogLevel(err), "settle.failed", "message_id", claim.Message.ID, "error", err)
		if errors.Is(err, store.ErrLeaseLost) || errors.Is(err, store.ErrClosed) {
			return store.Settlement{}, false
		}
		select {
		case <-time.After(pause):
		case <-e.attempts.Done():
			return store.Settlement{}, false
		}
	}
}

// release releases the claim of an abandoned attempt.
func (e *Engine) release(claim store.Claim) {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.options.Store.Release(ctx, e.options.Now(), []store.Claim{claim}); err != nil {
		e.options.Logger.Log(context.Background(), store.LogLevel(err), "release.failed", "message_id", claim.Message.ID, "error", err)
	}
}

// Decide says what an attempt's outcome means for the message: delivered, failed
// for good, or to be retried, and when (contract, messages 3).
func Decide(claim store.Claim, outcome posthaste.Outcome, now time.Time) store.Settlement {
	switch {
	case outcome.Class == posthaste.OutcomeDelivered:
		return store.Delivered(claim)
	case outcome.Class == posthaste.OutcomePermanent, claim.Retried >= claim.Message.MaxRetries():
		return store.Failed(claim, outcome)
	default:
		return store.RetryAt(claim, now.Add(backoff.Next(claim.Message, claim.Retried, outcome)), outcome)
	}
}
