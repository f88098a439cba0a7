package store

import (
	"context"
	"slices"
	"time"

	"posthaste"
)

// DeadLetters keeps what failed for good.
type DeadLetters interface {
	// DeadLetters returns a page of the dead letters that match the query. What
	// is promised for Log.Events holds here too, except that dead letters may
	// disappear between pages. No page holds more than PageBytes, as there.
	DeadLetters(ctx context.Context, user string, query DeadLetterQuery) (DeadLetterPage, error)

	// DeadLetter returns one, or ErrNotFound.
	DeadLetter(ctx context.Context, user string, id posthaste.DeadLetterID) (*posthaste.DeadLetter, error)

	// DeleteDeadLetters removes dead letters, in one commit, and returns those it
	// removed, in the order of ids; ids that are not there are passed over. They end
	// early when that is enough for a commit (see BatchLimit): the caller goes on behind
	// the last one. The step is nil unless this is part of a bulk action.
	DeleteDeadLetters(ctx context.Context, user string, ids []posthaste.DeadLetterID, step StepLeaving) ([]posthaste.DeadLetterID, error)

	// RetryDeadLetters accepts a new message for each dead letter and removes it
	// from the DLQ, all in one commit. Ids that are not there are passed over,
	// and so is one for which remake returns an error. The results are in the
	// order of ids, and end early as those of DeleteDeadLetters do. The step is nil
	// unless this is part of a bulk action.
	RetryDeadLetters(ctx context.Context, now time.Time, user string, ids []posthaste.DeadLetterID,
		remake func(*posthaste.DeadLetter) (*posthaste.Message, error), step StepLeaving) ([]Retried, error)
}

// Retried tells what a dead letter became.
type Retried struct {
	ID      posthaste.DeadLetterID
	Message *posthaste.Message // nil if Err
	Err     error              // what remake returned
}

// Behind returns the ids behind the last that a commit has dealt with, none if it has dealt
// with none: these are not there.
func Behind(ids, done []posthaste.DeadLetterID) []posthaste.DeadLetterID {
	if len(done) == 0 {
		return nil
	}
	return ids[slices.Index(ids, done[len(done)-1])+1:]
}

// RetriedIDs returns the dead letters that results tell of.
func RetriedIDs(results []Retried) []posthaste.DeadLetterID {
	ids := make([]posthaste.DeadLetterID, len(results))
	for i, r := range results {
		ids[i] = r.ID
	}
	return ids
}

// FailuresOf returns what a bulk action notes of dead letters that could not be retried.
func FailuresOf(all []Retried) (failures []posthaste.ActionFailure) {
	for _, r := range all {
		if r.Err != nil {
			failures = append(failures, posthaste.ActionFailure{ID: r.ID.String(), Error: r.Err.Error()})
		}
	}
	return failures
}

// DeadLetterQuery selects dead letters by position and filter.
type DeadLetterQuery struct {
	Filter      DeadLetterFilter
	Low, High   posthaste.Position // of the failure, both inclusive
	OldestFirst bool
	Limit       int  // at most so many; at least 1
	Bare        bool // the ids alone, of the same page: what may be large is not kept
}

// DeadLetterPage is a part of the answer to a DeadLetterQuery.
type DeadLetterPage struct {
	DeadLetters []*posthaste.DeadLetter
	IDs         []posthaste.DeadLetterID // in their place, of a query that is Bare
	More        bool
	Next        posthaste.Position // as in EventPage
}

// DeadLetterFilter narrows a query. Fields are joined by AND, the values of one
// field by OR; an empty field does not filter.
type DeadLetterFilter struct {
	IDs         []posthaste.DeadLetterID
	MessageIDs  []posthaste.MessageID
	URLs        []string
	URLGroups   []string
	ScheduleIDs []string
	Queues      []string
	Labels      []string
	CallerIPs   []string
	FlowKeys    []string
	Statuses    []int // of the response; 0: no response
}

// Matches reports whether a dead letter passes the filter. It is the definition
// that every index has to agree with.
func (f *DeadLetterFilter) Matches(d *posthaste.DeadLetter) bool {
	m, status := d.Message, 0
	if d.Response != nil {
		status = d.Response.Status
	}
	return passes(f.IDs, d.ID) &&
		passes(f.MessageIDs, m.ID) &&
		passes(f.URLs, m.URL) &&
		passes(f.URLGroups, m.URLGroup) &&
		passes(f.ScheduleIDs, m.ScheduleID) &&
		passes(f.Queues, m.Queue) &&
		passes(f.CallerIPs, m.CallerIP) &&
		passes(f.FlowKeys, m.FlowControl.Key) &&
		passes(f.Statuses, status) &&
		passesAny(f.Labels, m.Labels)
}
