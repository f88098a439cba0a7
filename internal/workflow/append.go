package workflow

import (
	"maps"
	"net/http"

	"posthaste"
)

// add adds an item to the list of its run and delivers it (section 4).
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
		item.Body = withTrueName(item.Body)
	}
	key := entryKey(callType, item.Body, item.Callback)
	if key != "" {
		id, again, err := t.recallStep(run, key)
		if err != nil || again {
			return Receipt{MessageID: id, Run: run.RunRef, Deduplicated: true}, err
		}
	}
	if err := t.checkRoom(run); err != nil {
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
	t.noteHook(run, callType, item.Body, m.ID)
	t.noteSDK(run, item.FetchingSDK)
	receipt := Receipt{MessageID: m.ID, Run: run.RunRef}
	if callType != posthaste.CallStep && callType != posthaste.CallRequest {
		return receipt, t.Append(run, posthaste.RunEntry{MessageID: m.ID, CallType: callType, Body: m.Body}, nil)
	}
	return receipt, t.append(run, callType, m)
}

// recallStep returns the message of what was asked for under the key of a step or, if
// the step has ended, that of its result. A run that was resumed knows only the latter
// of a call, a wait or an invocation.
func (t *tx) recallStep(run *posthaste.Run, key string) (id posthaste.MessageID, ok bool, err error) {
	id, ok, err = t.IdempotencyRecord(run, key)
	if ok || err != nil {
		return id, ok, err
	}
	return t.IdempotencyRecord(run, resultKeyOf(key))
}

// noteSDK remembers that the SDK of a run has shown that it can fetch its list.
func (t *tx) noteSDK(run *posthaste.Run, fetching bool) {
	if fetching && !run.LazySDK {
		run.LazySDK = true
		t.Save(run)
	}
}

// settingsOf returns what the message of an item is sent with. How a call is made is
// nobody's business but its own; what is not to be shown of its run is not to be shown
// of a call that it makes either.
func settingsOf(run *posthaste.Run, callType posthaste.CallType, item *Item) posthaste.Settings {
	if callType != posthaste.CallRequest {
		return inherit(run, item.Settings, item.Features)
	}
	own := item.Settings
	own.Redact = own.Redact.And(run.Redact)
	own.FailureCallback = failureCallbackOf(run, own.FailureCallback)
	return own
}

// inherit completes the settings of a delivery to a workflow with what its run was
// triggered with (section 2.3): what the message has itself wins. An SDK without the
// feature sends everything each time. A message that names no features has those of
// its run. What was overridden wins over all: an SDK that repeats itself does not know
// of it.
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

// mergeHeader returns both headers in one; of names in both the second's values.
func mergeHeader(first, second http.Header) http.Header {
	merged := make(http.Header, len(first)+len(second))
	maps.Copy(merged, first)
	maps.Copy(merged, second)
	return merged
}
