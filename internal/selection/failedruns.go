package selection

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"

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
	if err := p.checkNames(failedRunFilters, "count", "cursor", "order", "source", "async", "dryRun", "api"); err != nil {
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

// FailedRunList translates the parameters of a list of failed runs, without the count and
// how much of a body is shown; the latest come first unless told otherwise.
func FailedRunList(params url.Values) (query store.RunQuery, err error) {
	p := parameters(params)
	if err := p.checkNames(failedRunFilters, "count", "cursor", "order", "source", "api", "trimBody"); err != nil {
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

// OfWorkflows reports whether parameters ask for the dead letters of workflow runs
// rather than those of messages.
func OfWorkflows(params url.Values) (bool, error) { return parameters(params).ofWorkflows() }

// A list of ids is worked through in pages too. Its cursor is "i", how many of them
// were done, a hyphen, and a mark of these by which another list is recognised.
const listMark = "i"

// ListCursor returns the cursor that continues behind the first ids of a list.
func ListCursor(done []string) string {
	sum := sha256.Sum256([]byte(strings.Join(done, ",")))
	return listMark + strconv.Itoa(len(done)) + "-" + hex.EncodeToString(sum[:4])
}

// ListDone returns how many ids of a list were done before, by the cursor among the
// parameters; begun is false if there is none.
func ListDone(params url.Values, ids []string) (done int, begun bool, err error) {
	text, err := parameters(params).one("cursor")
	if text == "" || err != nil {
		return 0, false, err
	}
	digits, _, _ := strings.Cut(strings.TrimPrefix(text, listMark), "-")
	done, err = strconv.Atoi(digits)
	if err != nil || done < 0 || done > len(ids) || ListCursor(ids[:done]) != text {
		return 0, false, invalid("cursor", text, "the cursor of an earlier answer to the same list of dlqIds")
	}
	return done, true, nil
}

// readFailedRunFilter reads the filters and dates, and returns the range for the
// cursor to narrow.
func readFailedRunFilter(query *store.RunQuery, p parameters) (within rangeOf, err error) {
	query.Failed, query.High = true, posthaste.MaxPosition
	if err := p.checkSource(); err != nil {
		return within, err
	}
	within = rangeOf{&query.Low, &query.High, query.OldestFirst}
	if err := within.readDates(p); err != nil {
		return within, err
	}
	f := &query.Filter
	if f.Statuses, err = p.statuses("an HTTP status, 503 for no answer or 504 for a timeout"); err != nil {
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
	for _, name := range []string{"failureFunctionState", "failureCallbackState"} {
		texts, err := p.list(parts, name)
		if err != nil {
			return err
		}
		for _, text := range texts {
			state := posthaste.CallbackState(strings.ToUpper(text))
			if !slices.Contains(posthaste.CallbackStates, state) {
				return invalid(name, text, "CALLBACK_INPROGRESS, CALLBACK_SUCCESS, CALLBACK_FAIL or CALLBACK_CANCELED")
			}
			f.CallbackStates = append(f.CallbackStates, state)
		}
	}
	return nil
}

// checkSource returns an error if the dead letters of messages are asked for, where
// there are those of runs only.
func (p parameters) checkSource() error {
	workflows, err := p.ofWorkflows()
	if text, _ := p.one("source"); err == nil && text != "" && !workflows {
		return invalid("source", text, "workflow")
	}
	return err
}

// liveRunFilters are the filters of a bulk cancellation of runs.
var liveRunFilters = []string{
	"workflowRunIds", "workflowUrl", "workflowUrlExactMatch", "label", "host", "path", "callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
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
	if err := p.checkUnpaged(); err != nil {
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
		{&f.Hosts, []string{"host"}},
		{&f.Paths, []string{"path"}},
		{&f.CallerIPs, []string{"callerIp", "callerIP"}},
		{&f.FlowKeys, []string{"flowControlKey"}},
	})
}
