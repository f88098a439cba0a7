package wire

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"posthaste"
	"posthaste/internal/runlog"
)

// RunLog reads the parameters of the log of runs (contract, workflows 6.3). Default order: newest
// first.
func RunLog(params url.Values, count Count) (q runlog.Query, err error) {
	p := parameters(params)
	if q.Named, err = p.runNames(); err != nil {
		return q, err
	}
	if len(q.Named) > 0 { // other filters are ignored
		p = maps.Clone(p)
		maps.DeleteFunc(p, func(name string, _ []string) bool {
			return slices.Contains(runLog.names(), strings.TrimSuffix(name, exact))
		})
	}
	s, err := p.selected(runLog, count, false, "groupBy", "trimBody")
	if err == nil {
		err = s.readCursor(p)
	}
	if err != nil {
		return q, err
	}
	q.Filter, q.Low, q.High, q.OldestFirst, q.Limit, q.BodyLimit = s.Filter, s.Low, s.High, s.OldestFirst, s.Limit, s.BodyLimit
	q.Filter.RunIDs, q.Filter.RunIDPrefixes = q.Filter.RunIDPrefixes, nil // whole ids here
	for _, name := range q.Named {
		q.Filter.RunIDs = append(q.Filter.RunIDs, name.ID)
		q.Filter.CreatedAts = append(q.Filter.CreatedAts, name.CreatedAt)
	}
	q.Filter.RunStates, q.StepStates, err = p.runStates()
	return q, err
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
