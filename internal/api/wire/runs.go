package wire

import (
	"net/url"
	"slices"
	"strings"

	"posthaste"
	"posthaste/internal/runlog"
)

// runLogFilters are the filters of the log of runs.
var runLogFilters = []string{
	"workflowRuns", "workflowRunId", "workflowUrl", "workflowCreatedAt", "state", "messageId", "messageIds", "label", "host", "path",
	"callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
}

// RunLog reads the parameters of the log of runs (contract, workflows 6.3). Default order: newest
// first.
func RunLog(params url.Values, count Count) (q runlog.Query, err error) {
	p := parameters(params)
	if err := p.checkNames(runLogFilters, "count", "cursor", "order", "groupBy", "trimBody"); err != nil {
		return q, err
	}
	if q.Limit, err = count.Read(params); err != nil {
		return q, err
	}
	if q.BodyLimit, err = BodyLimit(params); err != nil {
		return q, err
	}
	if q.Named, err = p.runNames(); err != nil {
		return q, err
	}
	if len(q.Named) > 0 { // other filters are ignored
		for _, name := range q.Named {
			q.RunIDs = append(q.RunIDs, name.ID)
			q.Filter.CreatedAts = append(q.Filter.CreatedAts, name.CreatedAt)
		}
	} else if err := p.runLogFilter(&q); err != nil {
		return q, err
	}
	r, err := p.rangeOf(&q.Filter, false)
	if err != nil {
		return q, err
	}
	err = r.readCursor(p)
	q.Low, q.High, q.OldestFirst = r.Low, r.High, r.OldestFirst
	return q, err
}

func (p parameters) runLogFilter(q *runlog.Query) (err error) {
	if q.Filter, err = p.filter(""); err != nil {
		return err
	}
	q.RunIDs, q.Filter.RunIDPrefixes = q.Filter.RunIDPrefixes, nil // whole ids here
	q.RunStates, q.StepStates, err = p.runStates()
	return err
}

// runStates reads states of runs and of steps.
func (p parameters) runStates() (runs []posthaste.RunState, steps []posthaste.StepState, err error) {
	texts, err := p.list(parts, "state")
	for _, text := range texts {
		upper := strings.ToUpper(text)
		run, step := posthaste.RunState(upper), posthaste.StepState(upper)
		switch {
		case slices.Contains(posthaste.RunStates, run):
			runs = append(runs, run)
		case slices.Contains(posthaste.StepStates, step):
			steps = append(steps, step)
		default:
			return nil, nil, invalid("state", text, "one of "+names(posthaste.RunStates)+", "+names(posthaste.StepStates))
		}
	}
	return runs, steps, err
}

func names[S ~string](states []S) string {
	texts := make([]string, len(states))
	for i, state := range states {
		texts[i] = string(state)
	}
	return strings.Join(texts, ", ")
}

// Grouped reports whether groupBy asks for events grouped by run.
func Grouped(params url.Values) (bool, error) {
	const byRun = "workflowRunId"
	text, err := parameters(params).one("groupBy")
	if err == nil && text != "" && text != byRun {
		err = invalid("groupBy", text, byRun)
	}
	return text == byRun, err
}

// runNames reads workflowRuns: ids, each with @ and creation time.
func (p parameters) runNames() (named []posthaste.RunRef, err error) {
	texts, err := p.list(parts, "workflowRuns")
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		at := strings.LastIndexByte(text, '@') // ids may contain @
		created, ok := parseMillis(text[at+1:])
		if at < 1 || !ok {
			return nil, invalid("workflowRuns", text, "a run id, an @ and the Unix time in milliseconds of its creation")
		}
		named = append(named, posthaste.RunRef{ID: text[:at], CreatedAt: created})
	}
	return named, nil
}
