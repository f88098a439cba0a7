package workflow

import (
	"errors"
	"slices"

	"posthaste"
	"posthaste/internal/store"
)

// resumeFrom starts a run with the list of a failed one and delivers again the entries that
// continue it (section 7.4).
//
// Calls are left out of the list: SDKs ignore them, and one without a result is made again. But
// the response of a successful call that no step has used is delivered, and the call is not
// repeated.
func (t *tx) resumeFrom(run, failed *posthaste.Run, letter *posthaste.DeadLetter, o *posthaste.Overrides) error {
	entries, err := t.Entries(failed.Position, -1)
	if err != nil {
		return err
	}
	if len(entries) <= letter.Message.Run.Entry {
		return errNoEntries(nil)
	}
	t.create(run)
	messages := map[int]*posthaste.Message{}
	answered, err := t.answeredCalls(entries)
	if err != nil {
		return err
	}
	for index, call := range answered {
		m, err := t.newAnswer(run, call, entries[index].Body)
		if err != nil {
			return err
		}
		m.NotBefore = o.StartAt(t.Now())
		messages[index] = m
	}
	for _, index := range unfinished(entries, letter.Message.Run.Entry) {
		original, err := t.deliveryOf(failed, entries[index], letter)
		if err != nil {
			return err
		}
		if messages[index], err = t.redeliver(run, original, entries[index], o); err != nil {
			return err
		}
	}
	run.FirstID = messages[letter.Message.Run.Entry].ID
	t.Start(run)
	t.logRun(run, "")
	return t.copyList(run, entries, messages)
}

// copyList copies a list to a run. messages are those of entries that are delivered again.
func (t *tx) copyList(run *posthaste.Run, entries []posthaste.RunEntry, messages map[int]*posthaste.Message) error {
	for _, entry := range entries {
		m := messages[entry.Index]
		if m == nil && entry.CallType != posthaste.CallStep {
			continue
		}
		var callback *posthaste.Callback
		if m != nil {
			entry.MessageID, callback = m.ID, m.Callback
		}
		// recognises a repeated step
		if key := entryKey(entry.CallType, entry.Body, callback); key != "" && entry.Index > 0 {
			t.PutIdempotencyRecord(run, key, entry.MessageID)
		}
		if m != nil && entry.CallType == posthaste.CallAnswer {
			t.PutIdempotencyRecord(run, callKey(m.Header.Get(headerStepID)), entry.MessageID) // the call has been made
		}
		t.recordHook(run, entry.CallType, entry.Body, entry.MessageID)
		if m == nil {
			if err := t.Append(run, entry, nil); err != nil {
				return err
			}
		} else if err := t.append(run, entry.CallType, m); err != nil {
			return err
		}
	}
	return nil
}

// redeliver makes a new run's message from one of the failed run.
func (t *tx) redeliver(run *posthaste.Run, original *posthaste.Message, entry posthaste.RunEntry, o *posthaste.Overrides) (*posthaste.Message, error) {
	settings := original.Settings
	if entry.CallType != posthaste.CallRequest { // calls have their own settings
		settings = overridden(run, settings)
	}
	settings.Callback = ofRun(run, original.Callback)
	settings.FailureCallback = failureCallbackOf(run, original.FailureCallback)
	m, err := t.newMessage(run, entry.CallType, original.URL, entry.Body, settings)
	if err != nil {
		return nil, err
	}
	m.Run.Features, m.Queue = original.Run.Features, original.Queue
	m.SetSlot(nil)
	if m.NotBefore = o.StartAt(t.Now()); original.NotBefore.After(m.NotBefore) {
		m.NotBefore = original.NotBefore
	}
	return m, nil
}

// deliveryOf returns the message of an entry of a failed run. If it has been removed or was never
// made, it is made from the run's settings.
func (t *tx) deliveryOf(failed *posthaste.Run, entry posthaste.RunEntry, letter *posthaste.DeadLetter) (*posthaste.Message, error) {
	if entry.Index == letter.Message.Run.Entry {
		return letter.Message, nil
	}
	m, _, err := t.Message(entry.MessageID)
	if errors.Is(err, store.ErrNotFound) {
		settings := failed.Settings
		settings.FailureCallback = nil // the run's
		return t.newMessage(failed, posthaste.CallStep, failed.URL, entry.Body, settings)
	}
	return m, err
}

// unfinished returns the indexes of entries to deliver again: the failed one, plans without
// result, and the last step if it leads to another one.
func unfinished(entries []posthaste.RunEntry, failed int) []int {
	list := readList(entries)
	again := []int{failed}
	for _, s := range list {
		if s.IsPlan() && !list.hasResult(s.Target) {
			again = append(again, s.index)
		}
	}
	if last := list[len(list)-1]; last.index > failed && list.leadsOn(last) {
		again = append(again, last.index)
	}
	slices.Sort(again)
	return slices.Compact(again)
}

// listedStep is an entry that SDKs read: a step or the payload.
type listedStep struct {
	Step
	index int // in the list
}

type stepList []listedStep

// readList parses the steps of a list. An unreadable one counts as a single step.
func readList(entries []posthaste.RunEntry) stepList {
	var list stepList
	for _, entry := range entries {
		if entry.CallType != posthaste.CallStep {
			continue
		}
		var step Step
		if entry.Index > 0 { // the payload is user data
			step, _ = ParseStep(entry.Body)
		}
		list = append(list, listedStep{step, entry.Index})
	}
	return list
}

// hasResultOf reports whether the list has the result of a key's step.
func (l stepList) hasResultOf(key string) bool {
	return slices.ContainsFunc(l, func(s listedStep) bool { return s.index > 0 && !s.IsPlan() && s.key() == resultKeyOf(key) })
}

func (l stepList) hasResult(id int) bool {
	return slices.ContainsFunc(l, func(s listedStep) bool { return s.index > 0 && !s.IsPlan() && s.ID == id })
}

// leadsOn reports whether an SDK continues after the last step is delivered. In a parallel group
// it does so only after the last result (section 4.3).
func (l stepList) leadsOn(last listedStep) bool {
	if last.IsPlan() {
		return false
	}
	for _, plan := range l.groupOf(last) {
		if !l.hasResult(plan.Target) {
			return false
		}
	}
	return true
}

// groupOf returns the adjacent plans of the group that a result belongs to, none for a single
// step.
func (l stepList) groupOf(result listedStep) stepList {
	isOne := func(s listedStep) bool { return s.IsPlan() && s.Target == result.ID }
	first := slices.IndexFunc(l, isOne)
	if first < 0 {
		return nil
	}
	last := first
	for first > 0 && l[first-1].IsPlan() {
		first--
	}
	for last+1 < len(l) && l[last+1].IsPlan() {
		last++
	}
	return l[first : last+1]
}
