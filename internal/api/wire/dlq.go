package wire

import (
	"net/url"

	"posthaste"
	"posthaste/internal/store"
)

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
	return parameters(params).dlq(deadLetters, count)
}

// FailedRuns is DeadLetters for the DLQ of runs.
func FailedRuns(params url.Values, count Count) (Selected, error) {
	return parameters(params).dlq(failedRuns, count)
}

// SweepDeadLetters reads the parameters of a call that retries or deletes matching dead letters
// page by page. Default order: oldest first, in which they failed.
func SweepDeadLetters(params url.Values, count Count) (Selected, error) {
	return parameters(params).sweep(deadLetters, count, "async")
}

// SweepFailedRuns is SweepDeadLetters for a call that restarts, resumes or deletes failed runs
// (contract, workflows 7.1).
func SweepFailedRuns(params url.Values, count Count) (Selected, error) {
	return parameters(params).sweep(failedRuns, count, "async", "dryRun")
}

func (p parameters) dlq(of call, count Count) (s Selected, err error) {
	if err := p.checkSource(of); err != nil {
		return s, err
	}
	if s, err = p.selected(of, count, false, "source", "api", "trimBody"); err != nil {
		return s, err
	}
	return s, s.readCursor(p)
}

func (p parameters) sweep(of call, count Count, others ...string) (s Selected, err error) {
	if err := p.checkSource(of); err != nil {
		return s, err
	}
	if err := p.checkValues(of.names()); err != nil {
		return s, err
	}
	if s, err = p.selected(of, count, true, append([]string{"source", "api"}, others...)...); err != nil {
		return s, err
	}
	s.Begun, err = s.readSweepCursor(p)
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

// checkSource rejects the source of the other DLQ (contract, decision 13).
func (p parameters) checkSource(of call) error {
	text, _ := p.one("source")
	workflows, err := OfWorkflows(url.Values(p))
	switch {
	case err != nil:
		return err
	case workflows && of == deadLetters:
		return posthaste.Invalidf(`source "workflow" cannot be given here: failed runs are deleted, restarted and resumed at /v2/workflows/dlq`)
	case !workflows && of == failedRuns && text != "":
		return invalid("source", text, "workflow")
	default:
		return nil
	}
}
