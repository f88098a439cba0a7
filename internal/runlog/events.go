package runlog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"posthaste"
	"posthaste/internal/store"
)

// EventPage is one page of results. It may be short or empty and still have More.
type EventPage struct {
	Events []*Event
	More   bool
	Next   posthaste.Position // as in store.EventPage
}

// Events returns the page of changes that a query selects.
func (l *Log) Events(ctx context.Context, user string, q *Query) (page EventPage, err error) {
	query := q.Events()
	query.Filter.States = loggedAs(q)
	r := &changeReader{l.store, user, q, map[posthaste.Position]*posthaste.Run{}}
	page.Next, page.More, err = fill(query.Limit, func(room int) (part, error) {
		query.Limit = room
		found, err := store.ReadEvents(ctx, l.store, user, query)
		if err != nil {
			return part{}, fmt.Errorf("query events of runs: %w", err)
		}
		query.Low, query.High = rest(query.Low, query.High, query.OldestFirst, found.Next)
		kept, err := r.read(ctx, found.Entries)
		page.Events = append(page.Events, kept...)
		return part{len(found.Entries), len(kept), found.More, found.Next}, err
	})
	return page, err
}

// changeReader converts events to changes.
type changeReader struct {
	store Store
	user  string
	query *Query
	runs  map[posthaste.Position]*posthaste.Run // read so far, nil if unknown
}

// read returns the selected changes.
func (r *changeReader) read(ctx context.Context, entries []store.Entry) (changes []*Event, err error) {
	for _, entry := range entries {
		ref := entry.Message.Run.RunRef
		if !r.query.MatchesRun(ref) {
			continue
		}
		run, err := r.run(ctx, ref.Position)
		if err != nil {
			return nil, fmt.Errorf("read run %s: %w", ref.ID, err)
		}
		if run == nil {
			continue // being removed by retention
		}
		if event := newEvent(run, entry, r.query.BodyLimit); event != nil && isAskedFor(r.query, event.State) {
			changes = append(changes, event)
		}
	}
	return changes, nil
}

// run returns a run, nil if unknown, reading each once.
func (r *changeReader) run(ctx context.Context, at posthaste.Position) (*posthaste.Run, error) {
	run, read := r.runs[at]
	if read {
		return run, nil
	}
	run, err := r.store.Run(ctx, r.user, at)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	r.runs[at] = run
	return run, nil
}

// changes maps states of steps to the logged states of messages that cause them.
var changes = map[posthaste.StepState][]posthaste.State{
	posthaste.StepSuccess:   {posthaste.StateCreated, posthaste.StateDelivered},
	posthaste.StepProgress:  {posthaste.StateCreated},
	posthaste.StepRetry:     {posthaste.StateError},
	posthaste.StepFailed:    {posthaste.StateError},
	posthaste.StepCancelled: {posthaste.StateCancelled},
}

// loggedAs returns the states to search for.
func loggedAs(q *Query) []posthaste.State {
	runs, steps := q.Filter.RunStates, q.StepStates
	if len(runs)+len(steps) == 0 {
		runs, steps = posthaste.RunStates, posthaste.StepStates
	}
	var states []posthaste.State
	for _, run := range runs {
		states = append(states, posthaste.State(run))
	}
	for _, step := range steps {
		for _, state := range changes[step] {
			if !slices.Contains(states, state) {
				states = append(states, state)
			}
		}
	}
	return states
}

func isAskedFor(q *Query, state string) bool {
	return len(q.Filter.RunStates)+len(q.StepStates) == 0 ||
		slices.Contains(q.Filter.RunStates, posthaste.RunState(state)) ||
		slices.Contains(q.StepStates, posthaste.StepState(state))
}

// newEvent converts an event of a message to a change of its run or step, nil if it is none.
func newEvent(run *posthaste.Run, entry store.Entry, bodyLimit int) *Event {
	d := display{run.Redact, bodyLimit}
	m := entry.Message
	event := &Event{
		Time:         entry.Position.Time().UnixMilli(),
		State:        string(entry.State),
		RunID:        run.ID,
		URL:          run.URL,
		RunCreatedAt: run.CreatedAt.UnixMilli(),
		NextAt:       millis(entry.NextDeliveryAt),
		Error:        entry.Error,
		Labels:       newLabels(m.Labels),
		CallerIP:     m.CallerIP,
	}
	if entry.State.OfRun() {
		event.describeRun(run, d)
		return event
	}
	state, ok := changeOf(run, entry)
	if !ok {
		return nil
	}
	event.State, event.Step = string(state), stepOf(run, entry, d)
	event.Step.State = state
	if entry.State == posthaste.StateError {
		attempt := d.attempt(entry.Event, http.StatusServiceUnavailable)
		event.ResponseStatus, event.ResponseHeader, event.ResponseBody = attempt.Status, attempt.Header, attempt.Body
	}
	return event
}

// describeRun adds what a run's change shows.
func (e *Event) describeRun(run *posthaste.Run, d display) {
	switch posthaste.RunState(e.State) {
	case posthaste.RunStarted:
		e.Header = d.header(run.Header)
		if run.Invoker != nil {
			e.InvokerID, e.InvokerURL = run.Invoker.ID, run.Invoker.URL
			e.InvokerCreatedAt = run.Invoker.CreatedAt.UnixMilli()
		}
	case posthaste.RunSuccess:
		e.Response = d.result(run.Result)
	case posthaste.RunFailed:
		e.DLQID = letterID(run.DeadLetterID)
	}
}

// changeOf returns the state that a step enters, as listed in the package comment.
func changeOf(run *posthaste.Run, entry store.Entry) (state posthaste.StepState, ok bool) {
	m := entry.Message
	if m.Run.CallType == posthaste.CallFailure {
		return "", false
	}
	switch entry.State {
	case posthaste.StateCreated:
		return changeOfCreated(run, m)
	case posthaste.StateDelivered:
		return posthaste.StepSuccess, isSleep(m)
	case posthaste.StateError:
		if !entry.NextDeliveryAt.IsZero() {
			return posthaste.StepRetry, true
		}
		return posthaste.StepFailed, run.FailedID == m.ID
	case posthaste.StateCancelled:
		return posthaste.StepCancelled, true
	}
	return "", false
}

func changeOfCreated(run *posthaste.Run, m *posthaste.Message) (state posthaste.StepState, ok bool) {
	switch {
	case deliversFirst(m):
		return posthaste.StepSuccess, m.ID == run.FirstID // not if delivered again
	case isResult(m) && !isSleep(m):
		return posthaste.StepSuccess, true
	default:
		return posthaste.StepProgress, true
	}
}

// isResult reports whether a message has the result of a step.
func isResult(m *posthaste.Message) bool {
	if m.Run.CallType != posthaste.CallStep || m.Run.Entry == 0 {
		return false
	}
	w, _ := readStep(m.Body)
	return !w.isPlan()
}

// isSleep reports whether a message is the result of a sleep.
func isSleep(m *posthaste.Message) bool {
	return isResult(m) && m.NotBefore.After(m.CreatedAt)
}

// stepOf returns the step of an event.
func stepOf(run *posthaste.Run, entry store.Entry, d display) *Step {
	m := entry.Message
	s := &Step{}
	switch {
	case m.Run.CallType == posthaste.CallRequest:
		s.describe(stepOfCall(responseHeader(m)), d)
		s.describeCall(m, m.Body, d)
		s.CallType = posthaste.CallRequest
	case m.Run.CallType == posthaste.CallAnswer:
		s.describe(stepOfCall(m.Header), d)
		s.describeResponse(readReport(m.Body), d)
		s.CallType = posthaste.CallAnswer
	case isAboutNext(entry):
		s.Name = nameOfFailure(entry.Response)
	case deliversFirst(m):
		s.describe(initial, d)
		s.Out = d.body(m.Body)
	default:
		w, ok := readStep(m.Body)
		if !ok {
			w.Out = text(m.Body)
		}
		s.describe(w, d)
	}
	s.describeMessage(m.ID, m, d)
	return s
}

// isAboutNext reports whether an event of a result belongs to the next step: failed attempts
// after it is due.
func isAboutNext(entry store.Entry) bool {
	m := entry.Message
	switch {
	case deliversFirst(m):
		return entry.State != posthaste.StateCreated
	case isResult(m):
		return entry.State == posthaste.StateError ||
			entry.State == posthaste.StateCancelled && !m.NotBefore.After(entry.Position.Time())
	default:
		return false
	}
}
