package workflow

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// RunID identifies the latest run with an id, or the one created at CreatedAt.
type RunID struct {
	ID        string
	CreatedAt time.Time // zero: the latest
}

func (id RunID) names(run *posthaste.Run) bool {
	return id.CreatedAt.IsZero() || id.CreatedAt.Equal(run.CreatedAt)
}

// Finish ends a run successfully with a result, nil for none. It ignores ended and unknown runs
// (section 4.10).
func (s *Service) Finish(ctx context.Context, user string, id RunID, result *string) error {
	return s.transact(ctx, user, func(t *tx) error {
		run, err := t.active(id.ID, id.CreatedAt)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		run.Result = result
		return t.end(run, posthaste.RunSuccess, false, "")
	})
}

// end ends a run: its deliveries, including those in flight if inFlight is set, and its waits
// end, and its invokers are notified.
func (t *tx) end(run *posthaste.Run, state posthaste.RunState, inFlight bool, reason string) error {
	t.moved = append(t.moved, state)
	run.State, run.CompletedAt = state, t.Now()
	t.Save(run)
	if err := t.CancelDeliveries(run, inFlight); err != nil {
		return err
	}
	if state != posthaste.RunFailed { // a failed run may be resumed, and keeps its events
		if err := t.dropEvents(run); err != nil {
			return err
		}
	}
	if err := t.stopWaiting(run); err != nil {
		return err
	}
	t.logRun(run, reason)
	return t.notifyInvokers(run)
}

// stopWaiting ends a run's waits for events, but not for invoked runs, whose ends are recorded in
// its list.
func (t *tx) stopWaiting(run *posthaste.Run) error {
	waiters, err := t.RunWaiters(run.Position)
	for _, w := range waiters {
		if _, isEvent := w.Topic.EventID(); isEvent {
			t.EndWait(w)
		}
	}
	return err
}

// fail ends a run because a message has failed (section 5.1): it adds the run to the DLQ and
// sends its failure callback.
func (t *tx) fail(run *posthaste.Run, claim store.Claim, answer *posthaste.Response, reason string) error {
	letter := &posthaste.DeadLetter{
		ID:       posthaste.DeadLetterID(t.NextPosition(run.Slot())),
		Message:  claim.Message,
		Error:    reason,
		Response: answer,
	}
	run.DeadLetterID, run.FailedID, run.FailedStatus = letter.ID, claim.Message.ID, answer.Status
	if err := t.sendFailure(run, letter, claim.Retried); err != nil {
		return err
	}
	if err := t.end(run, posthaste.RunFailed, false, reason); err != nil {
		return err
	}
	t.AddToDLQ(run, letter)
	return nil
}

// sendFailure sends the failure callback of the failed message or else of the trigger, if any
// (section 5.2).
func (t *tx) sendFailure(run *posthaste.Run, letter *posthaste.DeadLetter, retried int) error {
	callback := letter.Message.FailureCallback
	if callback == nil {
		callback = run.FailureCallback
	}
	if callback == nil {
		return nil
	}
	body, err := t.failureBody(run, letter, callback, retried)
	if err != nil {
		return err
	}
	m, err := t.newMessage(run, posthaste.CallFailure, callback.URL, body, failureSettings(run, callback))
	if err != nil {
		return err
	}
	m.NotBefore = t.Now().Add(callback.Delay)
	return t.report(run, m)
}

// resendFailure sends a run's failure callback as before (section 7.5), or a new one if the old
// one has been removed.
func (t *tx) resendFailure(run *posthaste.Run, letter *posthaste.DeadLetter) error {
	sent, _, err := t.Message(run.Reported.MessageID)
	if errors.Is(err, store.ErrNotFound) {
		return t.sendFailure(run, letter, letter.Message.MaxRetries())
	}
	if err != nil {
		return err
	}
	m, err := t.newMessage(run, posthaste.CallFailure, sent.URL, sent.Body, sent.Settings)
	if err != nil {
		return err
	}
	return t.report(run, m)
}

// report sends m as the run's failure callback.
func (t *tx) report(run *posthaste.Run, m *posthaste.Message) error {
	run.Reported = &posthaste.RunCallback{MessageID: m.ID, URL: m.URL, State: posthaste.CallbackInProgress}
	t.Save(run)
	return t.accept(m)
}

// failureSettings returns the settings of a failure callback. Its default retries are the run's.
func failureSettings(run *posthaste.Run, callback *posthaste.Callback) posthaste.Settings {
	settings := callback.Settings
	settings.Method = http.MethodPost
	settings.Header = withHeader(settings.Header, "Content-Type", "application/json")
	settings.Header.Set(headerIsFailure, "true")
	settings.Header.Set(headerFailure, "true")
	settings.Redact, settings.Labels = engine.ReportRedaction(run.Redact, settings.Redact), run.Labels
	settings.Callback, settings.FailureCallback = nil, nil
	if settings.Retries == nil {
		settings.Retries = run.Retries
	}
	if settings.RetryDelay == "" {
		settings.RetryDelay = run.RetryDelay
	}
	return settings
}

func (t *tx) failureBody(run *posthaste.Run, letter *posthaste.DeadLetter, callback *posthaste.Callback, retried int) ([]byte, error) {
	report := engine.NewReport(store.Claim{Message: letter.Message, Retried: retried}, letter.Response)
	report.DLQID = letter.ID.String()
	report.WorkflowRunID, report.WorkflowCreatedAt = run.ID, run.CreatedAt.UnixMilli()
	entries, err := t.Entries(run.Position, letter.Message.Run.Entry+1)
	if err != nil || len(entries) == 0 {
		return nil, errors.Join(err, errNoEntries(entries))
	}
	if givenFeatures(callback, "Failure-Callback").Has(posthaste.FeatureInitialBody) {
		report.SourceBody = orEmpty(entries[0].Body)
	} else {
		report.SourceBody = listBody(entries, letter.Message)
	}
	return json.Marshal(report)
}

func orEmpty(body []byte) []byte {
	if body == nil {
		return []byte{}
	}
	return body
}

func errNoEntries(entries []posthaste.RunEntry) error {
	if len(entries) > 0 {
		return nil
	}
	return errors.New("the run has no list")
}

// invokeResult is the end of an invoked run, as its invoker gets it (section 4.9).
type invokeResult struct {
	Body        *string `json:"body,omitempty"`
	IsFailed    bool    `json:"isFailed"`
	IsCancelled bool    `json:"isCanceled"`
}

// notifyInvokers resumes the runs that wait for the end of this one.
func (t *tx) notifyInvokers(run *posthaste.Run) error {
	waiters, err := t.Waiters(posthaste.RunTopic(run.RunRef))
	if err != nil {
		return err
	}
	out, err := json.Marshal(invokeResult{
		Body:        run.Result,
		IsFailed:    run.State == posthaste.RunFailed,
		IsCancelled: run.State == posthaste.RunCancelled,
	})
	if err != nil {
		return err
	}
	for _, w := range waiters {
		t.EndWait(w)
		more := map[string]any{
			"out":                      string(out),
			"invokedWorkflowRunId":     run.ID,
			"invokedWorkflowUrl":       run.URL,
			"invokedWorkflowCreatedAt": run.CreatedAt.UnixMilli(),
		}
		if _, err := t.resume(w, w.Run.URL, w.Delivery, more); err != nil {
			return err
		}
	}
	return nil
}

// resume appends the end of a wait to its run's list and delivers it. If the run has ended, it
// only appends. The settings are complete: a waiter inherits its run's when it starts.
func (t *tx) resume(w *posthaste.Waiter, url string, settings posthaste.Settings, more map[string]any) (*posthaste.Message, error) {
	run, err := t.Run(w.Run.Position)
	if err != nil {
		return nil, err
	}
	body, err := extend(w.Step, more)
	if err != nil {
		return nil, err
	}
	m, err := t.newMessage(run, posthaste.CallStep, url, body, settings)
	if err != nil {
		return nil, err
	}
	if step, ok := ParseStep(body); ok {
		t.PutIdempotencyRecord(run, step.key(), m.ID)
	}
	if !run.Active() {
		return m, t.Append(run, posthaste.RunEntry{MessageID: m.ID, CallType: posthaste.CallStep, Body: body}, nil)
	}
	return m, t.append(run, posthaste.CallStep, m)
}

// encoded returns an event as it is put into a step.
func encoded(event []byte) string { return base64.StdEncoding.EncodeToString(event) }
