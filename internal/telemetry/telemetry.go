// Package telemetry turns what happens in the server into log lines, metrics and
// traces.
//
// It receives events and decides nothing. Two rules hold for every line, every
// metric and every span: labels come from closed sets, so that no client can grow their
// number (but for the names of as many queues as a setting says), and neither tokens, bodies, header values nor more of a destination
// than its host appear, for a path or a query may itself be a secret.
package telemetry

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste"
	"posthaste/internal/engine"
)

// Observer writes lines and counts what the engine and the store report. It is
// safe for concurrent use. Make one with NewObserver.
type Observer struct {
	logger  *slog.Logger
	metrics *metrics
	traces  *Traces // nil: none
}

var _ engine.Observer = (*Observer)(nil)

// NewObserver returns an observer that writes to the logger and registers its
// metrics. It panics when the registerer has metrics of these names already.
func NewObserver(logger *slog.Logger, registerer prometheus.Registerer) *Observer {
	return &Observer{logger: logger, metrics: newMetrics(registerer)}
}

// Trace makes the observer make spans of attempts too; nil is for none.
func (o *Observer) Trace(traces *Traces) { o.traces = traces }

// Accepted counts messages that were accepted in one commit.
func (o *Observer) Accepted(messages int) {
	o.metrics.accepted.Add(float64(messages))
}

// RunMoved counts a run that began, or that ended other than by a failure: that is the
// end of an attempt.
func (o *Observer) RunMoved(state posthaste.RunState) { o.metrics.runs[string(state)].Inc() }

// TicksMissed counts ticks of a schedule that made no message.
func (o *Observer) TicksMissed(ticks int) { o.metrics.missed.Add(float64(ticks)) }

// AttemptStarted counts an attempt that is in flight from now on.
func (o *Observer) AttemptStarted() { o.metrics.inFlight.Inc() }

// AttemptFinished counts an attempt and writes its canonical line.
func (o *Observer) AttemptFinished(report engine.AttemptReport) {
	o.metrics.attemptFinished(report)
	o.traces.attemptFinished(report)
	level := attemptLevel(report.State)
	if ctx := context.Background(); o.logger.Enabled(ctx, level) {
		var room [mostAttemptFields]slog.Attr // on the stack
		o.logger.LogAttrs(ctx, level, attemptFinished, appendAttemptFields(room[:0], report)...)
	}
}

// Committed records a commit of the store: how many operations shared it and
// how long applying it and its sync took.
func (o *Observer) Committed(operations int, apply, sync time.Duration) {
	o.metrics.operations.Add(float64(operations))
	o.metrics.commit.Observe(apply.Seconds())
	o.metrics.sync.Observe(sync.Seconds())
}

// attemptLevel lifts the attempts after which a message is given up above the
// everyday ones.
func attemptLevel(state posthaste.State) slog.Level {
	if state == posthaste.StateFailed {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// mostAttemptFields is how many fields a canonical line has at most.
const mostAttemptFields = 14

// appendAttemptFields appends the fields of the canonical line. Those that do not
// apply are left out.
func appendAttemptFields(fields []slog.Attr, r engine.AttemptReport) []slog.Attr {
	host, _ := posthaste.HostAndPath(r.Message.URL)
	fields = append(fields,
		slog.String("message_id", r.Message.ID.String()),
		slog.String("user", r.Message.User),
		slog.String("host", host),
		slog.Int("retried", r.Retried),
		slog.String("outcome", outcomeOf(r)),
		slog.String("state", string(r.State)),
		slog.Float64("duration_ms", float64(r.Outcome.Duration.Microseconds())/1000),
	)
	if r.Outcome.Response != nil {
		fields = append(fields, slog.Int("status", r.Outcome.Response.Status))
	}
	if !r.NextAt.IsZero() {
		fields = append(fields, slog.Time("next_at", r.NextAt))
	}
	fields = appendText(fields, "error", r.Outcome.Error)
	fields = appendText(fields, "queue", r.Message.Queue)
	fields = appendText(fields, "flow_key", r.Message.FlowControl.Key)
	fields = appendText(fields, "url_group", r.Message.URLGroup)
	return appendText(fields, "schedule_id", r.Message.ScheduleID)
}

func appendText(fields []slog.Attr, name, value string) []slog.Attr {
	if value == "" {
		return fields
	}
	return append(fields, slog.String(name, value))
}
