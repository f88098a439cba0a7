package store

import (
	"slices"

	"posthaste"
)

// Retried is the result of retrying a dead letter.
type Retried struct {
	ID      posthaste.DeadLetterID
	Message *posthaste.Message // nil if Err
	Err     error              // returned by remake
}

// IDsAfter returns the ids that follow the last of done; none if done is empty, because then none
// of ids exists.
func IDsAfter(ids, done []posthaste.DeadLetterID) []posthaste.DeadLetterID {
	if len(done) == 0 {
		return nil
	}
	return ids[slices.Index(ids, done[len(done)-1])+1:]
}

// RetriedIDs returns the ids of results.
func RetriedIDs(results []Retried) []posthaste.DeadLetterID {
	ids := make([]posthaste.DeadLetterID, len(results))
	for i, r := range results {
		ids[i] = r.ID
	}
	return ids
}

// FailuresOf returns the failed results in the form that bulk actions record.
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
	Filter      posthaste.Filter
	Low, High   posthaste.Position // of the failure, both inclusive
	OldestFirst bool
	Limit       int  // maximum number of results, at least 1
	Bare        bool // only the ids
}

// DeadLetterPage is one page of results.
type DeadLetterPage struct {
	DeadLetters []*posthaste.DeadLetter
	IDs         []posthaste.DeadLetterID // instead of DeadLetters, if the query is Bare
	More        bool
	Next        posthaste.Position // as in EventPage
}
