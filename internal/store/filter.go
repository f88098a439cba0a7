package store

import "posthaste"

// LiveMatching returns the query for matching messages that have not ended.
func LiveMatching(f *posthaste.Filter) LiveQuery {
	var query LiveQuery
	query.Filter, _, _ = f.Dated()
	if f.From > 0 {
		query.CreatedFrom = f.From.Time()
	}
	if f.Until > 0 {
		query.CreatedUntil = f.Until.Time()
	}
	return query
}

// DeadLettersMatching returns the query for matching dead letters.
func DeadLettersMatching(f *posthaste.Filter) DeadLetterQuery {
	undated, low, high := f.Dated()
	return DeadLetterQuery{Filter: undated, Low: low, High: high}
}

// RunsMatching returns the query for matching runs.
func RunsMatching(f *posthaste.Filter) RunQuery {
	undated, low, high := f.Dated()
	return RunQuery{Filter: undated, Low: low, High: high}
}
