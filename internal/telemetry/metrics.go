package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"posthaste"
	"posthaste/internal/engine"
)

// prefixed returns a registerer of metrics whose names begin with posthaste_.
func prefixed(registerer prometheus.Registerer) prometheus.Registerer {
	return prometheus.WrapRegistererWithPrefix("posthaste_", registerer)
}

// metrics are the counters and histograms that events feed.
type metrics struct {
	accepted   prometheus.Counter
	attempts   map[string]prometheus.Counter // by outcome
	failed     map[string]prometheus.Counter // by kind
	runs       map[string]prometheus.Counter // by state
	missed     prometheus.Counter
	inFlight   prometheus.Gauge
	delivery   prometheus.Histogram
	attempt    prometheus.Histogram
	wait       prometheus.Histogram
	operations prometheus.Counter
	commit     prometheus.Histogram
	sync       prometheus.Histogram
}

// The bounds of the histograms, in seconds. A delivery may take many retries,
// and so days; an attempt is cut off after two hours; a commit is a matter of
// the disk.
var (
	deliveryBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600}
	attemptBounds  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 600, 7200}
	waitBounds     = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 60, 600, 3600}
	storeBounds    = prometheus.ExponentialBuckets(.00005, 2, 16)
)

// outcomeAbandoned is the outcome of an attempt whose result does not count: the
// server stopped meanwhile, or the store refused to take it.
const outcomeAbandoned = "abandoned"

// outcomes are all values of the outcome label.
var outcomes = []string{
	posthaste.OutcomeDelivered.String(),
	posthaste.OutcomeRetryable.String(),
	posthaste.OutcomePermanent.String(),
	outcomeAbandoned,
}

func outcomeOf(r engine.AttemptReport) string {
	if r.State == posthaste.StateActive {
		return outcomeAbandoned
	}
	return r.Outcome.Class.String()
}

// The kinds of what fails for good.
const (
	failedMessage = "message"
	failedRun     = "run"
	failedAlert   = "alert"
)

var failedKinds = []string{failedMessage, failedRun, failedAlert}

// runStates are all values of the state label of runs.
var runStates = []string{
	string(posthaste.RunStarted), string(posthaste.RunSuccess), string(posthaste.RunFailed), string(posthaste.RunCancelled),
}

// failedForGood counts an entry into a dead letter queue.
func (m *metrics) failedForGood(message *posthaste.Message) {
	switch {
	case message.User == posthaste.ServerUser:
		m.failed[failedAlert].Inc()
	case message.Run == nil:
		m.failed[failedMessage].Inc()
	default:
		m.failed[failedRun].Inc()
		m.runs[string(posthaste.RunFailed)].Inc()
	}
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	r := promauto.With(prefixed(registerer))
	return &metrics{
		accepted:   r.NewCounter(prometheus.CounterOpts{Name: "messages_accepted_total", Help: "Messages accepted."}),
		attempts:   counters(r.NewCounterVec(prometheus.CounterOpts{Name: "attempts_total", Help: "Delivery attempts, by outcome."}, []string{"outcome"}), outcomes),
		failed:     counters(r.NewCounterVec(prometheus.CounterOpts{Name: "failed_total", Help: "Permanent failures: messages and runs moved to a dead letter queue, and alerts that could not be delivered."}, []string{"kind"}), failedKinds),
		runs:       counters(r.NewCounterVec(prometheus.CounterOpts{Name: "runs_total", Help: "Workflow runs that entered a state."}, []string{"state"}), runStates),
		missed:     r.NewCounter(prometheus.CounterOpts{Name: "ticks_missed_total", Help: "Schedule ticks that published no message, because no server was running or the message was refused."}),
		inFlight:   r.NewGauge(prometheus.GaugeOpts{Name: "attempts_in_flight", Help: "Attempts in progress."}),
		delivery:   r.NewHistogram(prometheus.HistogramOpts{Name: "delivery_seconds", Help: "Time from when a message became due until it was delivered, including retries.", Buckets: deliveryBounds}),
		attempt:    r.NewHistogram(prometheus.HistogramOpts{Name: "attempt_seconds", Help: "Duration of an attempt, from the start of its request to its result.", Buckets: attemptBounds}),
		wait:       r.NewHistogram(prometheus.HistogramOpts{Name: "attempt_wait_seconds", Help: "Time from when a message became due until its first attempt started.", Buckets: waitBounds}),
		operations: r.NewCounter(prometheus.CounterOpts{Name: "store_operations_total", Help: "Operations committed by the store."}),
		commit:     r.NewHistogram(prometheus.HistogramOpts{Name: "store_commit_seconds", Help: "Time to apply a commit, without its sync. One commit may hold several operations.", Buckets: storeBounds}),
		sync:       r.NewHistogram(prometheus.HistogramOpts{Name: "store_sync_seconds", Help: "Time to make a commit durable.", Buckets: storeBounds}),
	}
}

func (m *metrics) attemptFinished(r engine.AttemptReport) {
	m.inFlight.Dec()
	m.attempts[outcomeOf(r)].Inc()
	if r.State == posthaste.StateActive {
		return // its times say when we stopped, not how the destination does
	}
	if r.FailedForGood() {
		m.failedForGood(r.Message)
	}
	m.attempt.Observe(r.Outcome.Duration.Seconds())
	if r.Retried == 0 {
		m.wait.Observe(notNegative(r.StartedAt.Sub(r.Message.NotBefore)).Seconds())
	}
	if r.State == posthaste.StateDelivered {
		delivered := r.StartedAt.Add(r.Outcome.Duration)
		m.delivery.Observe(notNegative(delivered.Sub(r.Message.NotBefore)).Seconds())
	}
}

// notNegative guards sums of observations against a clock that stepped back.
func notNegative(d time.Duration) time.Duration { return max(d, 0) }

// counters registers one counter for each value of a label, so that all of them
// are there from the start.
func counters(vector *prometheus.CounterVec, values []string) map[string]prometheus.Counter {
	counters := make(map[string]prometheus.Counter, len(values))
	for _, value := range values {
		counters[value] = vector.WithLabelValues(value)
	}
	return counters
}
