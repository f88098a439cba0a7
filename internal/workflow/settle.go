package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

const (
	statusNonRetryable = 489 // an SDK asks for no retry (section 3.5)

	notAWorkflow = "detected a non-workflow destination for trigger/invoke. make sure you are sending the request to the correct endpoint"
	unknownSDK   = "trigger rest api is only usable with sdk versions after v1.0.0 major version"
)

// Settle implements engine.Runs.
func (s *Service) Settle(claim store.Claim, outcome posthaste.Outcome, now time.Time) store.Settlement {
	callType, reviewed := claim.Message.Run.CallType, review(claim.Message, outcome)
	settlement := engine.Decide(claim, reviewed, now)
	if settlement.State == posthaste.StateDelivered && (callType == posthaste.CallStep || callType == posthaste.CallAnswer) {
		return settlement // the endpoint has published what comes next, if anything does
	}
	settlement.UpdateRun = func(storeTx store.RunTx, settlement *store.Settlement) error {
		t := &tx{RunTx: storeTx, service: s, user: claim.Message.User}
		return t.updateRun(claim, outcome, settlement)
	}
	return settlement
}

// review applies the rules of workflows to an outcome (section 3.5): an SDK's non-retryable
// status needs no header, the first response must come from an SDK if the trigger asks for that,
// and a call with a truncated response has failed for good.
func review(m *posthaste.Message, outcome posthaste.Outcome) posthaste.Outcome {
	if outcome.Response == nil {
		return outcome
	}
	if m.Run.CallType == posthaste.CallRequest {
		if outcome.Class == posthaste.OutcomeDelivered && outcome.Response.Truncated && m.Callback != nil {
			outcome.Class, outcome.Error = posthaste.OutcomePermanent, tooLarge(outcome.Response)
		}
		return outcome
	}
	if outcome.Response.Status == statusNonRetryable {
		outcome.Class = posthaste.OutcomePermanent
	}
	first := m.Run.CallType == posthaste.CallStep && m.Run.Entry == 0
	if !first || outcome.Class != posthaste.OutcomeDelivered {
		return outcome
	}
	switch h := outcome.Response.Header; {
	case m.Run.Features.Has(posthaste.FeatureCheckSDK) && !isKnownSDK(h.Get(headerSDK)):
		outcome.Class, outcome.Error = posthaste.OutcomePermanent, unknownSDK
	case m.Run.Features.Has(posthaste.FeatureDetectTrigger) && h.Get(headerSDKVersion) == "":
		outcome.Class, outcome.Error = posthaste.OutcomePermanent, notAWorkflow
	}
	return outcome
}

// isKnownSDK reports whether an SDK's version, such as v1.2.3, is at least 1.
func isKnownSDK(version string) bool {
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	return major != "" && major != "0" && strings.Trim(major, "0123456789") == ""
}

// updateRun applies a settlement to the message's run.
func (t *tx) updateRun(claim store.Claim, outcome posthaste.Outcome, settlement *store.Settlement) error {
	m := claim.Message
	run, err := t.Run(m.Run.Position)
	if errors.Is(err, store.ErrNotFound) {
		discard(outcome, settlement) // removed by retention
		return nil
	}
	if err != nil {
		return err
	}
	if m.Run.CallType == posthaste.CallFailure {
		t.updateCallback(run, m, outcome, settlement)
		return nil
	}
	if isObsolete(run, m) {
		discard(outcome, settlement)
		return t.recordCallResult(run, claim, outcome)
	}
	answer := answerOf(outcome)
	called := m.Run.CallType == posthaste.CallRequest
	if called && answer.Truncated {
		answer = withoutPart(answer)
	}
	switch {
	case called && settlement.State == posthaste.StateDelivered,
		called && settlement.State == posthaste.StateFailed && m.Run.Features.Has(posthaste.FeatureNoDelete):
		return t.answerCall(run, claim, answer)
	case settlement.State == posthaste.StateFailed:
		return t.fail(run, claim, answer, settlement.Error)
	}
	return nil
}

// discard settles a message whose response nobody needs (section 3.7).
func discard(outcome posthaste.Outcome, settlement *store.Settlement) {
	settlement.NextAt = time.Time{}
	settlement.State = posthaste.StateCancelled
	if outcome.Class == posthaste.OutcomeDelivered {
		settlement.State, settlement.Error, settlement.Response = posthaste.StateDelivered, "", nil
	}
}

// answerOf returns the response of an attempt or, because SDKs need one, a substitute (decision
// 17 of the contract on workflows).
func answerOf(outcome posthaste.Outcome) *posthaste.Response {
	if outcome.Response != nil {
		return outcome.Response
	}
	status := http.StatusServiceUnavailable
	if outcome.TimedOut {
		status = http.StatusGatewayTimeout
	}
	return explained(status, outcome.Error)
}

// explained returns a response of our own in the form of SDKs.
func explained(status int, message string) *posthaste.Response {
	body, _ := json.Marshal(map[string]string{"error": http.StatusText(status), "message": message}) // texts always can
	return &posthaste.Response{Status: status, Body: body}
}

// withoutPart replaces a call's truncated response by a failure, because no workflow would check
// for truncation.
func withoutPart(answer *posthaste.Response) *posthaste.Response {
	status := answer.Status
	if isGood(status) {
		status = http.StatusBadGateway
	}
	return explained(status, tooLarge(answer))
}

func tooLarge(answer *posthaste.Response) string {
	return fmt.Sprintf("the destination responded with the status %d and a body of more than %d bytes, the limit of --max-response-size",
		answer.Status, len(answer.Body))
}

// answerCall appends the response of a call to its run (section 4.5).
func (t *tx) answerCall(run *posthaste.Run, claim store.Claim, answer *posthaste.Response) error {
	call := claim.Message
	if call.Callback == nil {
		return nil // no response wanted
	}
	body, err := reportCall(claim, answer)
	if err != nil {
		return err
	}
	m, err := t.newAnswer(run, call, body)
	if err != nil {
		return err
	}
	return t.append(run, posthaste.CallAnswer, m)
}

// reportCall returns a call's result as its run gets it.
func reportCall(claim store.Claim, answer *posthaste.Response) ([]byte, error) {
	report := engine.NewReport(claim, answer)
	if !isGood(answer.Status) {
		// SDKs keep waiting if a failed call has retries left (decision 32), but there are none.
		report.Retried = report.MaxRetries
	}
	return json.Marshal(report)
}

// newAnswer makes the message with a call's result. The call may be of the run that this one
// resumes.
func (t *tx) newAnswer(run *posthaste.Run, call *posthaste.Message, report []byte) (*posthaste.Message, error) {
	features := givenFeatures(call.Callback, "Callback")
	if features == 0 {
		features = run.Features
	}
	settings := inherit(run, call.Callback.Settings, features)
	settings.Header = withHeader(settings.Header, "Content-Type", "application/json")
	settings.Method = http.MethodPost
	settings.Redact = engine.ReportRedaction(call.Redact, settings.Redact)
	m, err := t.newMessage(run, posthaste.CallAnswer, call.Callback.URL, report, settings)
	if err != nil {
		return nil, err
	}
	m.Run.Features = features
	return m, nil
}

// isGood reports a successful status.
func isGood(status int) bool { return status >= 200 && status <= 299 }

// givenFeatures returns the features set for a callback in either family of headers.
func givenFeatures(callback *posthaste.Callback, setting string) posthaste.Features {
	const suffix = "-Feature-Set"
	var lists []string
	for _, prefix := range posthaste.DialectBoth.Prefixes() {
		lists = append(lists, callback.Given[prefix+setting+suffix]...)
	}
	return posthaste.ParseFeatures(lists)
}

// headerNotFound is set by SDKs without failure function.
const headerNotFound = "Upstash-Workflow-Failure-Callback-Notfound"

// updateCallback records the state of a run's failure callback, ignoring all but the last one
// sent.
func (t *tx) updateCallback(run *posthaste.Run, m *posthaste.Message, outcome posthaste.Outcome, settlement *store.Settlement) {
	if run.Reported == nil || run.Reported.MessageID != m.ID || run.Reported.State != posthaste.CallbackInProgress {
		return
	}
	reported := *run.Reported
	reported.Response, reported.Error = outcome.Response, settlement.Error
	switch settlement.State {
	case posthaste.StateDelivered:
		reported.State = posthaste.CallbackSuccess
	case posthaste.StateFailed:
		reported.State = posthaste.CallbackFailed
	case posthaste.StateCancelled:
		reported.State = posthaste.CallbackCancelled
	}
	if reported.Response != nil {
		reported.NotFound = reported.Response.Header.Get(headerNotFound) == "true"
	}
	run.Reported = &reported
	t.Save(run)
}
