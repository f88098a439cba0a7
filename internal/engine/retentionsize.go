package engine

import (
	"context"
	"time"

	"posthaste/internal/store"
)

const wholeDay = 24 * time.Hour

// trimSize removes the user's oldest days of the log, then of dead letters and ended runs, until
// all fits within most bytes. If too much is in use or recent, it only logs that.
func (e *Engine) trimSize(ctx context.Context, user string, most int64, now time.Time) error {
	usage, err := e.options.Store.Usage(ctx, user)
	if err != nil || usage.Bytes() <= most {
		return err
	}
	yesterday := now.UTC().Truncate(wholeDay).Add(-wholeDay)
	end, over := keepFrom(usage, most, yesterday)
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

// keepFrom returns the start of the log that fits within most bytes, zero if nothing can be
// removed, and how many bytes are still over. It keeps yesterday's log.
func keepFrom(usage store.Usage, most int64, yesterday time.Time) (from time.Time, over int64) {
	over = usage.Bytes() - most
	for _, d := range usage.Days {
		if over <= 0 || !d.Start.Before(yesterday) {
			break
		}
		from, over = d.Start.Add(wholeDay), over-d.Bytes
	}
	return from, max(over, 0)
}

// trimOldest removes the oldest days of dead letters and ended runs until over bytes are gone,
// and returns the remaining excess. It counts an average size per entry, because the store's
// sizes lag behind removals.
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

// average returns the average bytes per entry.
func average(kinds ...store.KindUsage) int64 {
	var bytes, entries int64
	for _, k := range kinds {
		bytes, entries = bytes+k.Bytes, entries+k.Entries
	}
	return bytes / max(entries, 1)
}

// oldest returns the earliest Oldest of some kinds, at most before.
func oldest(before time.Time, kinds ...store.KindUsage) time.Time {
	for _, k := range kinds {
		if k.Entries > 0 && k.Oldest.Before(before) {
			before = k.Oldest
		}
	}
	return before
}
