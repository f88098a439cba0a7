package workflow

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"posthaste"
)

// Step is the part of an SDK's step that the rules need (section 3.1). Steps are stored and
// delivered unchanged.
type Step struct {
	ID         int    `json:"stepId"`
	Name       string `json:"stepName"`
	Type       string `json:"stepType"`
	Concurrent int    `json:"concurrent"`
	Target     int    `json:"targetStep"` // of a plan: the planned step's id
}

// ParseStep parses a step; ok is false for anything else.
func ParseStep(data []byte) (step Step, ok bool) {
	trimmed := strings.TrimLeft(string(data[:min(len(data), 64)]), " \t\r\n")
	if !strings.HasPrefix(trimmed, "{") {
		return Step{}, false
	}
	err := json.Unmarshal(data, &step)
	return step, err == nil && step.Type != ""
}

// IsPlan reports whether the step announces one of a parallel group.
func (s Step) IsPlan() bool { return s.ID == 0 && s.Target > 0 }

// key identifies the step within its run, so that repetitions are recognised (section 3.3).
func (s Step) key() string {
	if s.IsPlan() {
		return "plan:" + strconv.Itoa(s.Target)
	}
	return resultKey(s.ID)
}

func resultKey(stepID int) string   { return "result:" + strconv.Itoa(stepID) }
func callKey(stepID string) string  { return "call:" + stepID }
func waitKey(stepID int) string     { return "wait:" + strconv.Itoa(stepID) }
func hookKey(eventID string) string { return "hook:" + eventID }
func invokeKey(stepID int) string   { return "invoke:" + strconv.Itoa(stepID) }

// resultKeyOf returns the result's key for a step's key.
func resultKeyOf(key string) string {
	_, id, _ := strings.Cut(key, ":")
	return "result:" + id
}

// headerStepID is the header of a call's callback that names its step.
const headerStepID = "Upstash-Workflow-Stepid"

// entryKey returns the key of an entry, "" if it has none.
func entryKey(callType posthaste.CallType, body []byte, callback *posthaste.Callback) string {
	switch callType {
	case posthaste.CallRequest:
		if callback != nil && callback.Settings.Header.Get(headerStepID) != "" {
			return callKey(callback.Settings.Header.Get(headerStepID))
		}
	case posthaste.CallStep:
		if step, ok := ParseStep(body); ok {
			return step.key()
		}
	}
	return ""
}

// withStepName restores the step name in a call's result. SDKs read it from a header, a character
// per byte, so a name above U+00FF, sent as UTF-8, would come back as another one.
func withStepName(result []byte) []byte {
	if !bytes.Contains(result, []byte(stepCall)) {
		return result // without parsing a large result
	}
	step, ok := ParseStep(result)
	name := posthaste.DecodeHeaderText(posthaste.EncodeHeaderText(step.Name))
	if !ok || step.Type != stepCall || step.IsPlan() || name == step.Name {
		return result
	}
	renamed, err := extend(result, map[string]any{"stepName": name})
	if err != nil {
		return result
	}
	return renamed
}

// stepCall is the type of a step that calls another server.
const stepCall = "Call"

// extend sets fields of a step.
func extend(step []byte, more map[string]any) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(step, &fields); err != nil {
		return nil, err
	}
	for name, value := range more {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		fields[name] = text
	}
	return json.Marshal(fields)
}
