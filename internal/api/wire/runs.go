package wire

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// RunLog is a query of the log of runs (contract, workflows 6.3). Runs and Events make store
// queries of it; results must also pass MatchesRun. The caller applies the exported fields,
// because runs are found by their messages, and states of steps are not stored.
type RunLog struct {
	MessageIDs []posthaste.MessageID
	RunStates  []posthaste.RunState
	StepStates []posthaste.StepState
	BodyLimit  int // bytes of a body to show

	low, high   posthaste.Position
	oldestFirst bool
	limit       int
	filter      store.RunFilter
	named       []runName         // if set, filters are ignored
	place       store.EventFilter // hosts and paths of the workflow
}

// runName identifies a run; ids may be reused.
type runName struct {
	id        string
	createdAt int64 // Unix ms
}

// runLogFilters are the filters of the log of runs.
var runLogFilters = []string{
	"workflowRuns", "workflowRunId", "workflowUrl", "workflowCreatedAt", "state", "messageId", "messageIds", "label", "host", "path",
	"callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
}

// ReadRunLog reads the parameters of the log of runs. Default order: newest first.
func ReadRunLog(params url.Values, count Count) (q RunLog, err error) {
	p := parameters(params)
	if err := p.checkNames(runLogFilters, "count", "cursor", "order", "groupBy", "trimBody"); err != nil {
		return q, err
	}
	q.high = posthaste.MaxPosition
	if q.limit, err = count.Read(params); err != nil {
		return q, err
	}
	if q.oldestFirst, err = p.order(false); err != nil {
		return q, err
	}
	if q.BodyLimit, err = BodyLimit(params); err != nil {
		return q, err
	}
	if q.named, err = p.runNames(); err != nil {
		return q, err
	}
	if len(q.named) > 0 {
		q.selectNamed()
	} else if err := q.readFilters(p); err != nil {
		return q, err
	}
	return q, q.within().readCursor(p)
}

func (q *RunLog) within() rangeOf { return rangeOf{&q.low, &q.high, q.oldestFirst} }

// selectNamed selects the named runs; MatchesRun checks that id and time belong together.
func (q *RunLog) selectNamed() {
	for _, name := range q.named {
		q.filter.IDs = append(q.filter.IDs, name.id)
		q.filter.CreatedAts = append(q.filter.CreatedAts, time.UnixMilli(name.createdAt))
	}
}

func (q *RunLog) readFilters(p parameters) (err error) {
	if err := q.within().readDates(p); err != nil {
		return err
	}
	if q.MessageIDs, err = p.messageIDs(); err != nil {
		return err
	}
	if err := readCreatedAts(&q.filter, p); err != nil {
		return err
	}
	if err := q.readStates(p); err != nil {
		return err
	}
	return p.texts([]textFilter{
		{&q.filter.IDs, []string{"workflowRunId"}},
		{&q.filter.URLs, []string{"workflowUrl"}},
		{&q.filter.Labels, []string{"label"}},
		{&q.filter.CallerIPs, []string{"callerIp", "callerIP"}},
		{&q.filter.FlowKeys, []string{"flowControlKey"}},
		{&q.place.Hosts, []string{"host"}},
		{&q.place.Paths, []string{"path"}},
	})
}

func (q *RunLog) readStates(p parameters) error {
	texts, err := p.list(parts, "state")
	if err != nil {
		return err
	}
	for _, text := range texts {
		upper := strings.ToUpper(text)
		run, step := posthaste.RunState(upper), posthaste.StepState(upper)
		switch {
		case slices.Contains(posthaste.RunStates, run):
			q.RunStates = append(q.RunStates, run)
		case slices.Contains(posthaste.StepStates, step):
			q.StepStates = append(q.StepStates, step)
		default:
			return invalid("state", text, "one of "+names(posthaste.RunStates)+", "+names(posthaste.StepStates))
		}
	}
	return nil
}

func names[S ~string](states []S) string {
	texts := make([]string, len(states))
	for i, state := range states {
		texts[i] = string(state)
	}
	return strings.Join(texts, ", ")
}

// Runs returns the query for runs. If states of steps are given, runs of all states are selected.
func (q *RunLog) Runs() store.RunQuery {
	query := store.RunQuery{Filter: q.filter, Low: q.low, High: q.high, OldestFirst: q.oldestFirst, Limit: q.limit}
	if len(q.StepStates) == 0 {
		query.Filter.States = q.RunStates
	}
	if created := q.filter.CreatedAts; len(created) > 0 { // a run's position has its creation time
		query.Low = max(query.Low, posthaste.FirstPosition(slices.MinFunc(created, time.Time.Compare)))
		query.High = min(query.High, posthaste.LastPosition(slices.MaxFunc(created, time.Time.Compare)))
	}
	return query
}

// Events returns the query for events, whose States the caller sets. Labels, callers and
// flow-control keys are those of messages.
func (q *RunLog) Events() store.EventQuery {
	query := store.EventQuery{
		Filter: store.EventFilter{
			Runs:         true,
			RunIDs:       q.filter.IDs,
			WorkflowURLs: q.filter.URLs,
			MessageIDs:   q.MessageIDs,
			Labels:       q.filter.Labels,
			CallerIPs:    q.filter.CallerIPs,
			FlowKeys:     q.filter.FlowKeys,
		},
		Low:         q.low,
		High:        q.high,
		OldestFirst: q.oldestFirst,
		Limit:       q.limit,
	}
	if created := q.filter.CreatedAts; len(created) > 0 { // a run has no earlier events
		query.Low = max(query.Low, posthaste.FirstPosition(slices.MinFunc(created, time.Time.Compare)))
	}
	return query
}

// MatchesRun reports whether a run passes the filters that the queries do not have.
func (q *RunLog) MatchesRun(run posthaste.RunRef) bool {
	name := runName{run.ID, run.CreatedAt.UnixMilli()}
	created := q.filter.CreatedAts
	return (len(q.named) == 0 || slices.Contains(q.named, name)) &&
		(len(created) == 0 || slices.ContainsFunc(created, run.CreatedAt.Equal)) &&
		q.place.Matches(&posthaste.Event{}, &posthaste.Message{URL: run.URL})
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
func (p parameters) runNames() (named []runName, err error) {
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
		named = append(named, runName{text[:at], created.UnixMilli()})
	}
	return named, nil
}
