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
	statusNonRetryable = 489 // of an SDK that asks not to be tried again (section 3.5)

	notAWorkflow = "detected a non-workflow destination for trigger/invoke. make sure you are sending the request to the correct endpoint"
	unknownSDK   = "trigger rest api is only usable with sdk versions after v1.0.0 major version"
)

// Settle implements engine.Runs.
func (s *Service) Settle(claim store.Claim, outcome posthaste.Outcome, now time.Time) store.Settlement {
	reviewed := review(claim.Message, outcome)
	settlement := engine.Decide(claim, reviewed, now)
	settlement.UpdateRun = func(storeTx store.RunTx, settlement *store.Settlement) error {
		t := &tx{RunTx: storeTx, service: s, user: claim.Message.User}
		return t.conclude(claim, outcome, settlement)
	}
	return settlement
}

// review reads an answer as that of a workflow (section 3.5): one that asks not to
// be tried again is final with or without the header that says so, and the first one
// of a run must come from an SDK if the trigger says so. A call has failed if a part of
// its answer is missing, and is not repeated: what it did was done.
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

// isKnownSDK reports whether the version of an SDK, such as v1.2.3, has a major
// number of at least 1.
func isKnownSDK(version string) bool {
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	return major != "" && major != "0" && strings.Trim(major, "0123456789") == ""
}

// conclude writes what a settlement means for the run of its message.
func (t *tx) conclude(claim store.Claim, outcome posthaste.Outcome, settlement *store.Settlement) error {
	m := claim.Message
	run, err := t.Run(m.Run.Position)
	if errors.Is(err, store.ErrNotFound) {
		disregard(outcome, settlement) // retention has removed it meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	if m.Run.CallType == posthaste.CallFailure {
		t.concludeCallback(run, m, outcome, settlement)
		return nil
	}
	if isIdle(run, m) {
		disregard(outcome, settlement)
		return t.keepCallAnswer(run, claim, outcome)
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

// disregard settles a message whose answer nobody waits for: whatever it was is of no
// interest any more (section 3.7).
func disregard(outcome posthaste.Outcome, settlement *store.Settlement) {
	settlement.NextAt = time.Time{}
	settlement.State = posthaste.StateCancelled
	if outcome.Class == posthaste.OutcomeDelivered {
		settlement.State, settlement.Error, settlement.Response = posthaste.StateDelivered, "", nil
	}
}

// answerOf returns the answer of an attempt. Where there was none it says so in the
// form of one, for SDKs read every answer as one (decision 17 of the contract on
// workflows).
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

// explained returns an answer of our own, in the form in which SDKs answer.
func explained(status int, message string) *posthaste.Response {
	body, _ := json.Marshal(map[string]string{"error": http.StatusText(status), "message": message}) // texts always can
	return &posthaste.Response{Status: status, Body: body}
}

// withoutPart returns what a run is told of a call of whose answer a part is kept. No code
// of a workflow looks for a mark, so the part is left out, and the status says that the
// call has failed.
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

// answerCall tells a run what came of a request that the server made for it
// (section 4.5).
func (t *tx) answerCall(run *posthaste.Run, claim store.Claim, answer *posthaste.Response) error {
	call := claim.Message
	if call.Callback == nil {
		return nil // nobody asked for the answer
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

// reportCall writes what came of a call, as its run is told.
func reportCall(claim store.Claim, answer *posthaste.Response) ([]byte, error) {
	report := engine.NewReport(claim, answer)
	if !isGood(answer.Status) {
		// There is no further attempt, also where retries were left. SDKs take a failed
		// call with retries left for one that is tried again, and wait (decision 32).
		report.Retried = report.MaxRetries
	}
	return json.Marshal(report)
}

// newAnswer makes the message that tells a run what came of a call. The call may be one of
// a run that this one resumes.
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

// isGood reports whether a status says that a request succeeded.
func isGood(status int) bool { return status >= 200 && status <= 299 }

// givenFeatures returns the features that were given with the settings of a callback,
// in either family of headers.
func givenFeatures(callback *posthaste.Callback, setting string) posthaste.Features {
	const suffix = "-Feature-Set"
	var lists []string
	for _, prefix := range posthaste.DialectBoth.Prefixes() {
		lists = append(lists, callback.Given[prefix+setting+suffix]...)
	}
	return posthaste.ParseFeatures(lists)
}

// headerNotFound is how an SDK says that there is no failure function.
const headerNotFound = "Upstash-Workflow-Failure-Callback-Notfound"

// concludeCallback writes where a run's failure callback stands. One that is not the
// last that was sent, or was cancelled, says nothing any more.
func (t *tx) concludeCallback(run *posthaste.Run, m *posthaste.Message, outcome posthaste.Outcome, settlement *store.Settlement) {
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
