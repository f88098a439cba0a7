// Package alert notifies an operator when something enters a dead letter queue.
//
// It counts what the engine reports, over all messages and runs of this server, and
// publishes one message about many: once there are as many entries as the threshold
// says, and never twice within the quiet time. It relies on being handed a way to
// publish as posthaste.ServerUser, so that an alert is retried and signed like any other
// message while no user sees it. What was counted and not yet reported is lost when the
// server stops: the entries are still there.
package alert

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"posthaste"
	"posthaste/internal/engine"
)

// Options configure an Alerter. Publish is required.
type Options struct {
	Publish   func(ctx context.Context, body []byte) error
	Threshold int           // entries that raise an alert; 0: 1
	Quiet     time.Duration // between two alerts
	Now       func() time.Time
	Logger    *slog.Logger // nil: slog.Default()
}

// Alert is the body of the message, JSON. Dates are Unix milliseconds.
type Alert struct {
	DeadLetters int   `json:"deadLetters"` // messages that failed for good
	FailedRuns  int   `json:"failedRuns"`
	Since       int64 `json:"since"` // the first of them
	Until       int64 `json:"until"` // the latest
	Latest      Entry `json:"latest"`
}

// Entry is one of the failures.
type Entry struct {
	MessageID     string `json:"messageId"`
	WorkflowRunID string `json:"workflowRunId,omitempty"`
	User          string `json:"user"`
	Host          string `json:"host"` // of the destination
	Error         string `json:"error"`
}

// Alerter counts dead letters and sends alerts. Make one with New.
type Alerter struct {
	options Options
	stop    context.CancelFunc
	running sync.WaitGroup
	changed chan struct{} // receives after something was counted

	mu     sync.Mutex
	counts Alert
	toldAt time.Time // of the latest alert
}

// New returns an alerter that counts; Start makes it send alerts.
func New(options Options) *Alerter {
	options.Threshold = max(options.Threshold, 1)
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	return &Alerter{options: options, stop: func() {}, changed: make(chan struct{}, 1)}
}

// Start begins to send alerts. It returns at once.
func (a *Alerter) Start() {
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	a.running.Go(func() { a.run(ctx) })
}

// Stop ends that. Calling it twice is harmless.
func (a *Alerter) Stop() {
	a.stop()
	a.running.Wait()
}

// AttemptFinished counts an attempt after which something of a user is in a dead letter
// queue; an alert that fails raises no other. It does not block.
func (a *Alerter) AttemptFinished(r engine.AttemptReport) {
	m := r.Message
	if !r.FailedForGood() || m.User == posthaste.ServerUser {
		return
	}
	a.count(m, r.Outcome.Error)
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

func (a *Alerter) count(m *posthaste.Message, reason string) {
	now := a.options.Now().UnixMilli()
	host, _ := posthaste.HostAndPath(m.URL)
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.counts
	if c.total() == 0 {
		c.Since = now
	}
	c.Until = now
	c.Latest = Entry{MessageID: m.ID.String(), User: m.User, Host: host, Error: reason}
	if m.Run == nil {
		c.DeadLetters++
		return
	}
	c.FailedRuns++
	c.Latest.WorkflowRunID = m.Run.ID
}

func (c *Alert) total() int { return c.DeadLetters + c.FailedRuns }

// retryAfter is how long to wait when an alert could not be published.
const retryAfter = 10 * time.Second

// run sends an alert whenever one is due.
func (a *Alerter) run(ctx context.Context) {
	timer := time.NewTimer(retryAfter)
	defer timer.Stop()
	for {
		timer.Stop()
		if wait := a.runOnce(ctx, a.options.Now()); wait > 0 {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-a.changed:
		case <-timer.C:
		}
	}
}

// runOnce publishes an alert if one is due. It returns after how long to look again, 0
// if something has to happen first.
func (a *Alerter) runOnce(ctx context.Context, now time.Time) time.Duration {
	due, wait := a.take(now)
	if due == nil {
		return wait
	}
	body, _ := json.Marshal(due) // numbers and texts always can
	if err := a.options.Publish(ctx, body); err != nil {
		a.options.Logger.Error("alert.failed", "error", err)
		a.giveBack(due)
		return retryAfter
	}
	return 0
}

// take returns what to report now, nil if nothing is due, and how long the quiet time
// still lasts if it is that.
func (a *Alerter) take(now time.Time) (due *Alert, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts.total() < a.options.Threshold {
		return nil, 0
	}
	if wait := a.toldAt.Add(a.options.Quiet).Sub(now); !a.toldAt.IsZero() && wait > 0 {
		return nil, wait
	}
	counts := a.counts
	a.counts, a.toldAt = Alert{}, now
	return &counts, 0
}

// giveBack counts again what could not be reported.
func (a *Alerter) giveBack(untold *Alert) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts.total() > 0 {
		untold.Until, untold.Latest = a.counts.Until, a.counts.Latest
	}
	untold.DeadLetters += a.counts.DeadLetters
	untold.FailedRuns += a.counts.FailedRuns
	a.counts, a.toldAt = *untold, time.Time{}
}
