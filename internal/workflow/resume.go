package workflow

import (
	"errors"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// resumeFrom starts a run with the list of one that failed and delivers again what
// had not come to its end (section 7.4): the message that failed, what was not
// delivered when it did, and the plans of a parallel group that have no result.
//
// Requests that the server made for steps are left out of the list, but for one that
// is itself delivered again: SDKs pass over them, and one without a result must be
// made again.
func (t *tx) resumeFrom(run, failed *posthaste.Run, letter *posthaste.DeadLetter, overrides engine.Overrides) error {
	entries, err := t.Entries(failed.Position, -1)
	if err != nil {
		return err
	}
	if len(entries) <= letter.Message.Run.Entry {
		return errNoEntries(nil)
	}
	again, err := t.unfinished(entries, letter)
	if err != nil {
		return err
	}
	run.User = t.user
	run.Position = t.NextPosition()
	run.CreatedAt = run.Position.Time()
	run.State = posthaste.RunStarted
	run.FirstID = entries[0].MessageID
	t.Start(run)
	for _, entry := range entries {
		original := again[entry.Index]
		if original == nil && entry.CallType != posthaste.CallStep {
			continue
		}
		if err := t.copyEntry(run, entry, original, overrides); err != nil {
			return err
		}
	}
	t.logRun(run, "")
	return nil
}

// copyEntry adds an entry of a failed run to the list of the new one. If its original
// message is given it is delivered again, as a new one.
func (t *tx) copyEntry(run *posthaste.Run, entry posthaste.RunEntry, original *posthaste.Message, overrides engine.Overrides) error {
	if original == nil {
		t.rememberEntry(run, entry, nil)
		return t.Append(run, entry, nil)
	}
	settings := original.Settings.With(overrides.Settings)
	settings.Callback, settings.FailureCallback = original.Callback, original.FailureCallback
	m, err := t.newMessage(run, entry.CallType, original.URL, entry.Body, settings)
	if err != nil {
		return err
	}
	m.Run.Features = original.Run.Features
	m.NotBefore = later(original.NotBefore, overrides.StartAt(t.Now()))
	if entry.Index == 0 {
		run.FirstID = m.ID
	}
	entry.MessageID = m.ID
	t.rememberEntry(run, entry, original.Callback)
	return t.append(run, entry.CallType, m)
}

// rememberEntry lets a repetition of the entry be recognised.
func (t *tx) rememberEntry(run *posthaste.Run, entry posthaste.RunEntry, callback *posthaste.Callback) {
	if key := entryKey(entry.CallType, entry.Body, callback); key != "" && entry.Index > 0 {
		t.Remember(run, key, entry.MessageID)
	}
}

// unfinished returns the messages of a failed run that are to be delivered again, by
// the index of their entry.
func (t *tx) unfinished(entries []posthaste.RunEntry, letter *posthaste.DeadLetter) (map[int]*posthaste.Message, error) {
	again := map[int]*posthaste.Message{letter.Message.Run.Entry: letter.Message}
	results := map[int]bool{}
	for _, entry := range entries {
		if step, ok := ParseStep(entry.Body); ok && entry.CallType == posthaste.CallStep && !step.IsPlan() {
			results[step.ID] = true
		}
	}
	for _, entry := range entries[1:] {
		if entry.CallType != posthaste.CallStep || again[entry.Index] != nil {
			continue
		}
		m, state, err := t.Message(entry.MessageID)
		if errors.Is(err, store.ErrNotFound) {
			continue // it was recorded only, or ended so long ago that it is forgotten
		}
		if err != nil {
			return nil, err
		}
		step, isStep := ParseStep(entry.Body)
		pending := isStep && step.IsPlan() && !results[step.Target]
		if pending || state != posthaste.StateDelivered {
			again[entry.Index] = m
		}
	}
	return again, nil
}
