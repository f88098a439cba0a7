package engine

import (
	"context"
	"time"

	"posthaste/internal/store"
)

const wholeDay = 24 * time.Hour

// trimSize removes of a user the oldest days of the log until all that is kept is within
// the bound, and then the oldest days of dead letters and ended runs. What remains above
// it is only told of: it is alive, or young.
func (e *Engine) trimSize(ctx context.Context, user string, most int64, now time.Time) error {
	usage, err := e.options.Store.Usage(ctx, user)
	if err != nil || usage.Bytes() <= most {
		return err
	}
	yesterday := now.UTC().Truncate(wholeDay).Add(-wholeDay)
	end, over := fitting(usage, most, yesterday)
	if !end.IsZero() {
		if err := e.trimUser(ctx, user, store.Horizon{Log: end}); err != nil {
			return err
		}
	}
	if over, err = e.trimOldest(ctx, user, usage, over, yesterday); err != nil {
		return err
	}
	if over > 0 {
		e.options.Logger.Warn("retention.over_size", "user", user, "bytes", most+over, "most", most)
	}
	return nil
}

// fitting returns from when on the log can be kept without all being more than the most
// bytes, the zero time if nothing can be removed, and by how much it will be more still.
// Yesterday's log stays.
func fitting(usage store.Usage, most int64, yesterday time.Time) (from time.Time, over int64) {
	over = usage.Bytes() - most
	for _, d := range usage.Days {
		if over <= 0 || !d.Start.Before(yesterday) {
			break
		}
		from, over = d.Start.Add(wholeDay), over-d.Bytes
	}
	return from, max(over, 0)
}

// trimOldest removes dead letters and ended runs, the oldest day of both first, until
// there are so many bytes less. It returns how many are still too much. Each counts as
// much as the average of its kind: what the store says of its size just after a removal
// may include what was removed.
func (e *Engine) trimOldest(ctx context.Context, user string, usage store.Usage, over int64, yesterday time.Time) (int64, error) {
	letterSize, runSize := average(usage.DeadLetters, usage.FailedRuns), average(usage.Runs)
	var removed store.Trimmed
	end := oldest(yesterday, usage.DeadLetters, usage.FailedRuns, usage.Runs).UTC().Truncate(wholeDay)
	for over > 0 && end.Before(yesterday) {
		end = end.Add(wholeDay)
		trimmed, err := e.options.Store.Trim(ctx, user, store.Horizon{DeadLetters: end, Runs: end})
		if err != nil {
			return over, err
		}
		over -= int64(trimmed.DeadLetters)*letterSize + int64(trimmed.Runs)*runSize
		removed.DeadLetters += trimmed.DeadLetters
		removed.Runs += trimmed.Runs
	}
	if !removed.Empty() {
		e.options.Logger.Warn("retention.trimmed_by_size", "user", user, "before", end,
			"dead_letters", removed.DeadLetters, "runs", removed.Runs)
	}
	return max(over, 0), nil
}

// average returns how many bytes one of some kinds takes.
func average(kinds ...store.KindUsage) int64 {
	var bytes, entries int64
	for _, k := range kinds {
		bytes, entries = bytes+k.Bytes, entries+k.Entries
	}
	return bytes / max(entries, 1)
}

// oldest returns when the oldest of some kinds came to be, if that was before a time.
func oldest(before time.Time, kinds ...store.KindUsage) time.Time {
	for _, k := range kinds {
		if k.Entries > 0 && k.Oldest.Before(before) {
			before = k.Oldest
		}
	}
	return before
}
