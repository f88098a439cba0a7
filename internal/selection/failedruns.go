package selection

import (
	"net/url"
	"slices"

	"posthaste"
	"posthaste/internal/store"
)

// failedRunFilters are the filters of the calls on the DLQ of runs.
var failedRunFilters = []string{
	"dlqIds", "workflowUrl", "url", "workflowRunId", "workflowCreatedAt", "label", "responseStatus",
	"failureFunctionState", "failureCallbackState", "callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
}

// FailedRuns translates the parameters of a call that restarts, resumes or deletes
// what matches a filter, a page at a time (contract, workflows 7.1): the oldest
// failures come first unless told otherwise. begun is as in Sweep.
func FailedRuns(params url.Values) (query store.RunQuery, begun bool, err error) {
	p := parameters(params)
	if err := p.checkNames(failedRunFilters, "count", "cursor", "order", "source", "async", "dryRun"); err != nil {
		return query, false, err
	}
	if err := p.checkValues(failedRunFilters); err != nil {
		return query, false, err
	}
	if query.OldestFirst, err = p.order(true); err != nil {
		return query, false, err
	}
	within, err := readFailedRunFilter(&query, p)
	if err != nil {
		return query, false, err
	}
	begun, err = within.readSweepCursor(p)
	return query, begun, err
}

// FailedRunList translates the parameters of a list of failed runs, without the
// count; the latest come first unless told otherwise.
func FailedRunList(params url.Values) (query store.RunQuery, err error) {
	p := parameters(params)
	if err := p.checkNames(failedRunFilters, "count", "cursor", "order", "source"); err != nil {
		return query, err
	}
	if query.OldestFirst, err = p.order(false); err != nil {
		return query, err
	}
	within, err := readFailedRunFilter(&query, p)
	if err != nil {
		return query, err
	}
	return query, within.readCursor(p)
}

// readFailedRunFilter reads the filters and dates, and returns the range for the
// cursor to narrow.
func readFailedRunFilter(query *store.RunQuery, p parameters) (within rangeOf, err error) {
	query.Failed, query.High = true, posthaste.MaxPosition
	within = rangeOf{&query.Low, &query.High, query.OldestFirst}
	if err := within.readDates(p); err != nil {
		return within, err
	}
	f := &query.Filter
	if f.Statuses, err = p.statuses(); err != nil {
		return within, err
	}
	if err := readFailedRunIDs(f, p); err != nil {
		return within, err
	}
	if err := readCreatedAts(f, p); err != nil {
		return within, err
	}
	if err := readCallbackStates(f, p); err != nil {
		return within, err
	}
	return within, p.texts([]textFilter{
		{&f.URLs, []string{"workflowUrl", "url"}},
		{&f.IDPrefixes, []string{"workflowRunId"}},
		{&f.Labels, []string{"label"}},
		{&f.CallerIPs, []string{"callerIp", "callerIP"}},
		{&f.FlowKeys, []string{"flowControlKey"}},
	})
}

// readFailedRunIDs reads dlqIds. A text that is no id is the id of no dead letter.
func readFailedRunIDs(f *store.RunFilter, p parameters) error {
	texts, err := p.list(parts, "dlqIds")
	for _, text := range texts {
		if id, ok := posthaste.ParseDeadLetterID(text); ok {
			f.DeadLetterIDs = append(f.DeadLetterIDs, id)
		}
	}
	if len(texts) > 0 && len(f.DeadLetterIDs) == 0 {
		f.DeadLetterIDs = []posthaste.DeadLetterID{noDeadLetter}
	}
	return err
}

func readCreatedAts(f *store.RunFilter, p parameters) error {
	texts, err := p.list(parts, "workflowCreatedAt")
	if err != nil {
		return err
	}
	for _, text := range texts {
		at, ok := parseMillis(text)
		if !ok {
			return invalid("workflowCreatedAt", text, "a Unix time in milliseconds")
		}
		f.CreatedAts = append(f.CreatedAts, at)
	}
	return nil
}

func readCallbackStates(f *store.RunFilter, p parameters) error {
	texts, err := p.list(parts, "failureFunctionState", "failureCallbackState")
	if err != nil {
		return err
	}
	for _, text := range texts {
		state := posthaste.CallbackState(text)
		if !slices.Contains(posthaste.CallbackStates, state) {
			return invalid("failureFunctionState", text,
				"CALLBACK_INPROGRESS, CALLBACK_SUCCESS, CALLBACK_FAIL or CALLBACK_CANCELED")
		}
		f.CallbackStates = append(f.CallbackStates, state)
	}
	return nil
}

// liveRunFilters are the filters of a bulk cancellation of runs.
var liveRunFilters = []string{
	"workflowRunIds", "workflowUrl", "workflowUrlExactMatch", "label", "callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
}

// LiveRuns translates the parameters of a bulk cancellation of runs, without the
// count and the ids (contract, workflows 6.2). Dates are those of creation.
func LiveRuns(params url.Values) (query store.RunQuery, err error) {
	p := parameters(params)
	if err := p.checkNames(liveRunFilters, "count", "async"); err != nil {
		return query, err
	}
	if err := p.checkValues(liveRunFilters); err != nil {
		return query, err
	}
	query.High = posthaste.MaxPosition
	within := rangeOf{&query.Low, &query.High, false}
	if err := within.readDates(p); err != nil {
		return query, err
	}
	f := &query.Filter
	exact, err := Flag(params, "workflowUrlExactMatch")
	if err != nil {
		return query, err
	}
	urls := &f.URLPrefixes
	if exact {
		urls = &f.URLs
	}
	return query, p.texts([]textFilter{
		{urls, []string{"workflowUrl"}},
		{&f.Labels, []string{"label"}},
		{&f.CallerIPs, []string{"callerIp", "callerIP"}},
		{&f.FlowKeys, []string{"flowControlKey"}},
	})
}
