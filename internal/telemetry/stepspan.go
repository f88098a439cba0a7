package telemetry

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"

	"posthaste"
)

// step is what a span shows of the step of a workflow run that a message is about.
type step struct {
	Name   string `json:"stepName"`
	ID     int    `json:"stepId"`
	Type   string `json:"stepType"`
	Target int    `json:"targetStep"` // of a plan: the id of the step that it announces
}

// stepOf returns the step of a message of a run: the payload and results are in its body,
// calls and their answers have it in the headers of the answer. It is the zero step where
// the SDK says nothing.
func stepOf(m *posthaste.Message) (s step) {
	switch m.Run.CallType {
	case posthaste.CallStep:
		if m.Run.Entry == 0 { // whose body is the user's
			return step{Name: "init", Type: "Initial"}
		}
		_ = json.Unmarshal(m.Body, &s) // what is no step has no name
	case posthaste.CallRequest:
		if m.Callback != nil {
			return stepInHeader(m.Callback.Settings.Header)
		}
	case posthaste.CallAnswer:
		return stepInHeader(m.Header)
	}
	return s
}

func stepInHeader(h http.Header) step {
	const prefix = "Upstash-Workflow-Step"
	id, _ := strconv.Atoi(h.Get(prefix + "id"))
	return step{Name: posthaste.DecodeHeaderText(h.Get(prefix + "name")), ID: id, Type: h.Get(prefix + "type")}
}

func (s step) isPlan() bool { return s.ID == 0 && s.Target > 0 }

// maxSpanName is the most bytes of a step's name in the name of its span.
const maxSpanName = 100

// runSpanName says what the attempt of a message of a run does, and for which step.
func runSpanName(m *posthaste.Message, s step) string {
	name := "step"
	switch {
	case m.Run.CallType == posthaste.CallRequest:
		name = "call"
	case m.Run.CallType == posthaste.CallAnswer:
		name = "answer"
	case m.Run.CallType == posthaste.CallFailure:
		return "failure callback"
	case s.isPlan():
		name = "plan"
	}
	if s.Name == "" {
		return name
	}
	return name + " " + shortened(s.Name)
}

// shortened returns the beginning of a text, as UTF-8.
func shortened(text string) string {
	if len(text) > maxSpanName {
		text = text[:maxSpanName]
	}
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, "")
}

// runAttributes describe a message's run and the step that it is about. The
// URL of the workflow is that of the user's own endpoint: it is shown without user name,
// password and query.
func runAttributes(m *posthaste.Message) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String("posthaste.workflow_run_id", m.Run.ID),
		attribute.String("posthaste.workflow_url", withoutSecrets(m.Run.URL)),
	}
	s := stepOf(m)
	if s.Name != "" {
		all = append(all, attribute.String("posthaste.step_name", shortened(s.Name)))
	}
	if s.Type != "" {
		all = append(all, attribute.String("posthaste.step_type", shortened(s.Type)), attribute.Int("posthaste.step_id", max(s.ID, s.Target)))
	}
	return all
}

func withoutSecrets(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment = nil, "", false, ""
	return u.String()
}
