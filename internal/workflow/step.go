package workflow

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"posthaste"
)

// Step is what the rules need to know of a step as SDKs write it (section 3.1). The
// rest of it is theirs: a step is kept and delivered as it came.
type Step struct {
	ID         int    `json:"stepId"`
	Name       string `json:"stepName"`
	Type       string `json:"stepType"`
	Concurrent int    `json:"concurrent"`
	Target     int    `json:"targetStep"` // of a plan: the id of the step it plans
}

// ParseStep reads a step. ok is false for what is none.
func ParseStep(data []byte) (step Step, ok bool) {
	trimmed := strings.TrimLeft(string(data[:min(len(data), 64)]), " \t\r\n")
	if !strings.HasPrefix(trimmed, "{") {
		return Step{}, false
	}
	err := json.Unmarshal(data, &step)
	return step, err == nil && step.Type != ""
}

// IsPlan reports whether the step announces a step of a parallel group rather than
// being its result.
func (s Step) IsPlan() bool { return s.ID == 0 && s.Target > 0 }

// key returns what identifies the step within its run: an SDK that repeats itself
// says the same again (section 3.3).
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

// resultKeyOf returns the key of the result of the step that a key is about.
func resultKeyOf(key string) string {
	_, id, _ := strings.Cut(key, ":")
	return "result:" + id
}

// headerStepID is the header in which the callback of a call names its step.
const headerStepID = "Upstash-Workflow-Stepid"

// entryKey returns the key of what is appended, "" if it has none.
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

// withTrueName returns the result of a call under the name that its step has. SDKs read
// that from a header of the answer, a character for each byte. A name with a character above
// U+00FF went there as UTF-8, and what comes back of it would be taken for another step.
func withTrueName(result []byte) []byte {
	if !bytes.Contains(result, []byte(stepCall)) {
		return result // without reading a large one
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

// stepCall is the type of the step that is a request to somebody else.
const stepCall = "Call"

// extend returns a step with more fields, or others in their place.
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
