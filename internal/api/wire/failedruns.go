package wire

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

// failedRunFilters are the filters of calls on the DLQ of runs.
var failedRunFilters = []string{
	"dlqIds", "workflowUrl", "url", "workflowRunId", "workflowCreatedAt", "label", "responseStatus",
	"failureFunctionState", "failureCallbackState", "callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
}

// FailedRuns reads the parameters of a call that restarts, resumes or deletes matching failed
// runs page by page (contract, workflows 7.1), as Sweep does. Default order: oldest first.
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

// FailedRunList reads the parameters of a list of failed runs, except count and trimBody. Default
// order: newest first.
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

// OfWorkflows reports whether source asks for failed workflow runs.
func OfWorkflows(params url.Values) (bool, error) { return parameters(params).ofWorkflows() }

// The cursor of a list of ids is "i", the number done, a hyphen and a hash of those, by which
// another list is recognised.
const listMark = "i"

// ListCursor returns the cursor after the first ids of a list.
func ListCursor(done []string) string {
	sum := sha256.Sum256([]byte(strings.Join(done, ",")))
	return listMark + strconv.Itoa(len(done)) + "-" + hex.EncodeToString(sum[:4])
}

// ListDone returns how many ids the cursor says are done; begun is false without cursor.
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

// readFailedRunFilter reads filters and dates, and returns the range for the cursor.
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
	if f.DeadLetterIDs, err = p.deadLetterIDs(); err != nil {
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

// checkSource rejects source=message.
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

// LiveRuns reads the parameters of a bulk cancellation of runs, except count and ids (contract,
// workflows 6.2). Dates are creation times.
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
