package wire

import (
	"net/url"

	"posthaste"
	"posthaste/internal/store"
)

// dlq is how calls on one of the two DLQs differ from those on the other.
type dlq struct {
	filters     []string
	statuses    string // completes the error about a bad status
	checkSource func(parameters) error
}

var ofMessages = dlq{
	[]string{
		"dlqIds", "messageId", "url", "topicName", "urlGroup", "scheduleId", "queueName", "responseStatus", "label",
		"callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
	},
	"an HTTP status, or 0 for no response", parameters.checkOfMessages,
}

var ofRuns = dlq{
	[]string{
		"dlqIds", "workflowUrl", "url", "workflowRunId", "workflowCreatedAt", "label", "responseStatus",
		"failureFunctionState", "failureCallbackState", "callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
	},
	"an HTTP status, 503 for no answer or 504 for a timeout", parameters.checkOfRuns,
}

// Selected is what a call on a DLQ selects.
type Selected struct {
	Filter posthaste.Filter
	Range
	Limit     int
	BodyLimit int // of a list, see BodyLimit

	// Begun means that an earlier call has fixed where the sweep ends, which is High, so that later
	// failures are not included. Otherwise the caller must lower it to what there is.
	Begun bool
}

// DeadLetters returns the query for dead letters.
func (s *Selected) DeadLetters() store.DeadLetterQuery {
	query := store.DeadLettersMatching(&s.Filter)
	query.Low, query.High, query.OldestFirst, query.Limit = s.Low, s.High, s.OldestFirst, s.Limit
	return query
}

// Runs returns the query for failed runs.
func (s *Selected) Runs() store.RunQuery {
	query := store.RunsMatching(&s.Filter)
	query.Low, query.High, query.OldestFirst, query.Limit = s.Low, s.High, s.OldestFirst, s.Limit
	return query
}

// DeadLetters reads the parameters of a list of dead letters (contract, messages 2.9). Default
// order: newest first.
func DeadLetters(params url.Values, count Count) (Selected, error) {
	return ofMessages.list(parameters(params), count)
}

// FailedRuns is DeadLetters for the DLQ of runs.
func FailedRuns(params url.Values, count Count) (Selected, error) {
	return ofRuns.list(parameters(params), count)
}

// SweepDeadLetters reads the parameters of a call that retries or deletes matching dead letters
// page by page. Default order: oldest first, in which they failed.
func SweepDeadLetters(params url.Values, count Count) (Selected, error) {
	return ofMessages.sweep(parameters(params), count, "api", "async")
}

// SweepFailedRuns is SweepDeadLetters for a call that restarts, resumes or deletes failed runs
// (contract, workflows 7.1).
func SweepFailedRuns(params url.Values, count Count) (Selected, error) {
	return ofRuns.sweep(parameters(params), count, "async", "dryRun", "api")
}

func (d dlq) list(p parameters, count Count) (s Selected, err error) {
	if s, err = d.read(p, count, false, "api", "trimBody"); err != nil {
		return s, err
	}
	if s.BodyLimit, err = BodyLimit(url.Values(p)); err != nil {
		return s, err
	}
	return s, s.readCursor(p)
}

func (d dlq) sweep(p parameters, count Count, others ...string) (s Selected, err error) {
	if s, err = d.read(p, count, true, others...); err != nil {
		return s, err
	}
	s.Begun, err = s.readSweepCursor(p)
	return s, err
}

// read reads all but the cursor; others are the names of further parameters.
func (d dlq) read(p parameters, count Count, sweep bool, others ...string) (s Selected, err error) {
	if err := p.checkNames(d.filters, append([]string{"count", "cursor", "order", "source"}, others...)...); err != nil {
		return s, err
	}
	if sweep {
		if err := p.checkValues(d.filters); err != nil {
			return s, err
		}
	}
	if err := d.checkSource(p); err != nil {
		return s, err
	}
	if s.Filter, err = p.filter(d.statuses); err != nil {
		return s, err
	}
	if s.Limit, err = count.Read(url.Values(p)); err != nil {
		return s, err
	}
	s.Range, err = p.rangeOf(&s.Filter, sweep)
	return s, err
}

// OfWorkflows reports whether source asks for failed workflow runs.
func OfWorkflows(params url.Values) (bool, error) {
	text, err := One(params, "source")
	if err != nil {
		return false, err
	}
	switch text {
	case "", "message":
		return false, nil
	case "workflow":
		return true, nil
	default:
		return false, invalid("source", text, "message or workflow")
	}
}

// checkOfMessages rejects source=workflow (contract, decision 13).
func (p parameters) checkOfMessages() error {
	workflows, err := OfWorkflows(url.Values(p))
	if workflows {
		return posthaste.Invalidf(`source "workflow" cannot be given here: failed runs are deleted, restarted and resumed at /v2/workflows/dlq`)
	}
	return err
}

// checkOfRuns rejects source=message.
func (p parameters) checkOfRuns() error {
	workflows, err := OfWorkflows(url.Values(p))
	if text, _ := p.one("source"); err == nil && text != "" && !workflows {
		return invalid("source", text, "workflow")
	}
	return err
}
