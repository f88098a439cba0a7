package workflow

import (
	"maps"
	"net/http"

	"posthaste"
)

// add appends an item to its run's list and delivers it (section 4).
func (t *tx) add(item *Item) (Receipt, error) {
	run, err := t.mustBeActive(item.RunID, item.CreatedAt)
	if err != nil {
		return Receipt{}, err
	}
	callType := item.CallType
	if callType == "" {
		callType = posthaste.CallStep
	}
	if callType == posthaste.CallStep {
		item.Body = withStepName(item.Body)
	}
	key := entryKey(callType, item.Body, item.Callback)
	if key != "" {
		id, again, err := t.recordedStep(run, key)
		if err != nil || again {
			return Receipt{MessageID: id, Run: run.RunRef, Deduplicated: true}, err
		}
	}
	if err := t.checkEntryLimit(run); err != nil {
		return Receipt{}, err
	}
	m, err := t.newMessage(run, callType, item.Destination, item.Body, settingsOf(run, callType, item))
	if err != nil {
		return Receipt{}, err
	}
	m.CallerIP, m.Queue, m.NotBefore = item.CallerIP, item.Queue, item.StartAt(t.Now())
	if item.Features != 0 {
		m.Run.Features = item.Features
	}
	if key != "" {
		t.PutIdempotencyRecord(run, key, m.ID)
	}
	t.recordHook(run, callType, item.Body, m.ID)
	t.recordSDK(run, item.FetchingSDK)
	receipt := Receipt{MessageID: m.ID, Run: run.RunRef}
	if callType != posthaste.CallStep && callType != posthaste.CallRequest {
		return receipt, t.Append(run, posthaste.RunEntry{MessageID: m.ID, CallType: callType, Body: m.Body}, nil)
	}
	return receipt, t.append(run, callType, m)
}

// recordedStep returns the message recorded under a step's key or, if the step has ended, under
// that of its result. A resumed run has only the latter for calls, waits and invocations.
func (t *tx) recordedStep(run *posthaste.Run, key string) (id posthaste.MessageID, ok bool, err error) {
	id, ok, err = t.IdempotencyRecord(run, key)
	if ok || err != nil {
		return id, ok, err
	}
	return t.IdempotencyRecord(run, resultKeyOf(key))
}

// recordSDK records that the run's SDK can fetch its list.
func (t *tx) recordSDK(run *posthaste.Run, fetching bool) {
	if fetching && !run.LazySDK {
		run.LazySDK = true
		t.Save(run)
	}
}

// settingsOf returns the settings of an item's message. A call has its own, except that it
// inherits redaction.
func settingsOf(run *posthaste.Run, callType posthaste.CallType, item *Item) posthaste.Settings {
	if callType != posthaste.CallRequest {
		return inherit(run, item.Settings, item.Features)
	}
	own := item.Settings
	own.Redact = own.Redact.And(run.Redact)
	own.FailureCallback = failureCallbackOf(run, own.FailureCallback)
	return own
}

// inherit adds the settings of the run's trigger to those of a delivery to the workflow (section
// 2.3). The message's own win, and overrides win over all, because a repeating SDK does not know
// them. An SDK without the feature sends all settings itself. A message without features has its
// run's.
func inherit(run *posthaste.Run, own posthaste.Settings, features posthaste.Features) posthaste.Settings {
	if features == 0 {
		features = run.Features
	}
	own = overridden(run, own)
	own.Dialect, own.Redact = run.Dialect, run.Redact
	if len(own.Labels) == 0 {
		own.Labels = run.Labels
	}
	if !features.Has(posthaste.FeatureTriggerOnConfig) {
		return own
	}
	own.Header = mergeHeader(run.Header, own.Header)
	if own.Retries == nil {
		own.Retries = run.Retries
	}
	if own.RetryDelay == "" {
		own.RetryDelay = run.RetryDelay
	}
	if own.Timeout == 0 {
		own.Timeout = run.Timeout
	}
	if own.FlowControl == (posthaste.FlowControl{}) {
		own.FlowControl = run.FlowControl
	}
	return own
}

// mergeHeader merges two headers; the second one wins.
func mergeHeader(first, second http.Header) http.Header {
	merged := make(http.Header, len(first)+len(second))
	maps.Copy(merged, first)
	maps.Copy(merged, second)
	return merged
}
