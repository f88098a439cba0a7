package workflow

import (
	"encoding/json"
	"errors"

	"posthaste"
	"posthaste/internal/store"
)

// A call that has succeeded may have moved money. When its run failed before the answer was
// used, because another branch failed or the endpoint did, a resume uses that answer rather
// than make the call again (docs/design/2026-11-25-answered-calls.md).

// keepCallAnswer adds the answer of a call that has succeeded to the list of a run that
// failed while the call was in flight, for the run that may resume it. Nothing delivers it.
func (t *tx) keepCallAnswer(run *posthaste.Run, claim store.Claim, outcome posthaste.Outcome) error {
	call := claim.Message
	kept := run.State == posthaste.RunFailed && run.Successor == nil && stepOfCall(call) != "" &&
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

// stepOfCall returns the key of the step that a message makes a call for, "" if it is no
// call or says no step.
func stepOfCall(m *posthaste.Message) string {
	if m.Run.CallType != posthaste.CallRequest {
		return ""
	}
	return entryKey(posthaste.CallRequest, nil, m.Callback)
}

// answeredCalls returns the calls of a failed run that have succeeded and whose answers no
// step has used, by the entries of the answers. A call whose message is not kept any more
// is not among them: it says how the answer is delivered.
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
		if call == nil || stepOfCall(call) == "" || list.hasResultOf(stepOfCall(call)) {
			continue
		}
		answered[entry.Index] = call
	}
	return answered, nil
}

// succeededCall returns the call that a report tells of, nil if it has not succeeded or is
// not known.
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
