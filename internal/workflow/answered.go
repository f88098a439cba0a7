package workflow

import (
	"encoding/json"
	"errors"

	"posthaste"
	"posthaste/internal/store"
)

// A successful call may have moved money. If its run failed before a step used the response,
// resuming the run uses it instead of making the call again
// (docs/design/2026-11-25-answered-calls.md).

// recordCallResult appends the response of a successful call to a run that failed meanwhile, for
// the run that may resume it. It is not delivered.
func (t *tx) recordCallResult(run *posthaste.Run, claim store.Claim, outcome posthaste.Outcome) error {
	call := claim.Message
	kept := run.State == posthaste.RunFailed && run.Successor == nil && callStepKey(call) != "" &&
		review(call, outcome).Class == posthaste.OutcomeDelivered
	if !kept {
		return nil
	}
	body, err := reportCall(claim, answerOf(outcome))
	if err != nil {
		return err
	}
	id, err := t.service.newMessageID(t.Now())
	if err != nil {
		return err
	}
	return t.Append(run, posthaste.RunEntry{MessageID: id, CallType: posthaste.CallAnswer, Body: body}, nil)
}

// callStepKey returns the key of the step that makes a call, "" if there is none.
func callStepKey(m *posthaste.Message) string {
	if m.Run.CallType != posthaste.CallRequest {
		return ""
	}
	return entryKey(posthaste.CallRequest, nil, m.Callback)
}

// answeredCalls returns a failed run's successful calls whose responses no step has used, by the
// entries of the responses. It leaves out calls whose message has been removed, because the
// message says how to deliver the response.
func (t *tx) answeredCalls(entries []posthaste.RunEntry) (map[int]*posthaste.Message, error) {
	list := readList(entries)
	answered := map[int]*posthaste.Message{}
	for _, entry := range entries {
		if entry.CallType != posthaste.CallAnswer {
			continue
		}
		call, err := t.succeededCall(entry.Body)
		if err != nil {
			return nil, err
		}
		if call == nil || callStepKey(call) == "" || list.hasResultOf(callStepKey(call)) {
			continue
		}
		answered[entry.Index] = call
	}
	return answered, nil
}

// succeededCall returns the call of a report, nil if it failed or is unknown.
func (t *tx) succeededCall(report []byte) (*posthaste.Message, error) {
	var told struct {
		Status int    `json:"status"`
		Source string `json:"sourceMessageId"`
	}
	if json.Unmarshal(report, &told) != nil || !isGood(told.Status) {
		return nil, nil
	}
	id, err := posthaste.ParseMessageID(told.Source)
	if err != nil {
		return nil, nil
	}
	call, _, err := t.Message(id)
	if errors.Is(err, store.ErrNotFound) || err == nil && (call.Run == nil || call.Callback == nil) {
		return nil, nil
	}
	return call, err
}
