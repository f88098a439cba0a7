package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste"
	"posthaste/internal/engine"
)

// namespace begins the name of every metric.
const namespace = "posthaste"

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
	r := register{registerer}
	return &metrics{
		accepted:   r.counter("messages_accepted_total", "Messages accepted."),
		attempts:   r.counters("attempts_total", "Delivery attempts, by outcome.", "outcome", outcomes),
		failed:     r.counters("failed_total", "Permanent failures: messages and runs moved to a dead letter queue, and alerts that could not be delivered.", "kind", failedKinds),
		runs:       r.counters("runs_total", "Workflow runs that entered a state.", "state", runStates),
		missed:     r.counter("ticks_missed_total", "Schedule ticks that published no message, because no server was running or the message was rejected."),
		inFlight:   r.gauge("attempts_in_flight", "Attempts in progress."),
		delivery:   r.histogram("delivery_seconds", "Time from when a message became due until it was delivered, including retries.", deliveryBounds),
		attempt:    r.histogram("attempt_seconds", "Duration of an attempt, from the start of its request to its result.", attemptBounds),
		wait:       r.histogram("attempt_wait_seconds", "Time from when a message became due until its first attempt started.", waitBounds),
		operations: r.counter("store_operations_total", "Operations committed by the store."),
		commit:     r.histogram("store_commit_seconds", "Time to apply a commit, without its sync. One commit may hold several operations.", storeBounds),
		sync:       r.histogram("store_sync_seconds", "Time to make a commit durable.", storeBounds),
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

// register makes metrics and registers them.
type register struct{ prometheus.Registerer }

func (r register) counter(name, help string) prometheus.Counter {
	counter := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	r.MustRegister(counter)
	return counter
}

// counters registers one counter for each value of a label, so that all of them
// are there from the start.
func (r register) counters(name, help, label string, values []string) map[string]prometheus.Counter {
	vector := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, []string{label})
	r.MustRegister(vector)
	counters := make(map[string]prometheus.Counter, len(values))
	for _, value := range values {
		counters[value] = vector.WithLabelValues(value)
	}
	return counters
}

func (r register) gauge(name, help string) prometheus.Gauge {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
	r.MustRegister(gauge)
	return gauge
}

func (r register) histogram(name, help string, bounds []float64) prometheus.Histogram {
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: bounds})
	r.MustRegister(histogram)
	return histogram
}
