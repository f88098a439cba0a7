package workflow

import (
	"errors"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// resumeFrom starts a run with the list of one that failed and delivers again what
// leads on from there (section 7.4).
//
// Requests that the server made for steps are left out of the list: SDKs pass over them,
// and one without a result must be made again. But the answer of a call that succeeded is
// delivered again, or for the first time, unless a step has used it: the call is not made
// again.
func (t *tx) resumeFrom(run, failed *posthaste.Run, letter *posthaste.DeadLetter, o *engine.Overrides) error {
	entries, err := t.Entries(failed.Position, -1)
	if err != nil {
		return err
	}
	if len(entries) <= letter.Message.Run.Entry {
		return errNoEntries(nil)
	}
	run.User = t.user
	run.Position = t.NextPosition()
	run.CreatedAt = run.Position.Time()
	t.moved = append(t.moved, posthaste.RunStarted)
	run.State = posthaste.RunStarted
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
		if messages[index], err = t.deliverAgain(run, original, entries[index], o); err != nil {
			return err
		}
	}
	run.FirstID = messages[letter.Message.Run.Entry].ID
	t.Start(run)
	t.logRun(run, "")
	return t.copyList(run, entries, messages)
}

// copyList gives a run the list of another one, with new messages for the entries
// that are delivered again.
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
		// An SDK that repeats the step is recognised.
		if key := entryKey(entry.CallType, entry.Body, callback); key != "" && entry.Index > 0 {
			t.PutIdempotencyRecord(run, key, entry.MessageID)
		}
		if m != nil && entry.CallType == posthaste.CallAnswer {
			t.PutIdempotencyRecord(run, callKey(m.Header.Get(headerStepID)), entry.MessageID) // the call was made
		}
		t.noteHook(run, entry.CallType, entry.Body, entry.MessageID)
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

// deliverAgain makes a message of a new run of one of the run that failed.
func (t *tx) deliverAgain(run *posthaste.Run, original *posthaste.Message, entry posthaste.RunEntry, o *engine.Overrides) (*posthaste.Message, error) {
	settings := original.Settings
	if entry.CallType != posthaste.CallRequest { // which is nobody's business but its own
		settings = overridden(run, settings)
	}
	settings.Callback = ofRun(run, original.Callback)
	settings.FailureCallback = failureCallbackOf(run, original.FailureCallback)
	m, err := t.newMessage(run, entry.CallType, original.URL, entry.Body, settings)
	if err != nil {
		return nil, err
	}
	m.Run.Features, m.Queue = original.Run.Features, original.Queue
	m.NotBefore = later(original.NotBefore, o.StartAt(t.Now()))
	return m, nil
}

// deliveryOf returns the message of a failed run that delivered an entry or would have.
// One that is not known any more, or never was because the run had ended before, is
// made of what the run was triggered with.
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

// unfinished returns the indexes of the entries to deliver again: that whose delivery
// failed; the plans that have no result; and the last step, if it leads to the next
// one and nothing shows that it did.
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

// listedStep is an entry of a list that SDKs read: a step, or the initial payload.
type listedStep struct {
	Step
	index int // in the list
}

type stepList []listedStep

// readList returns the steps of a list. What cannot be read as a step counts as one
// that is alone.
func readList(entries []posthaste.RunEntry) stepList {
	var list stepList
	for _, entry := range entries {
		if entry.CallType != posthaste.CallStep {
			continue
		}
		var step Step
		if entry.Index > 0 { // the payload is the user's, whatever it looks like
			step, _ = ParseStep(entry.Body)
		}
		list = append(list, listedStep{step, entry.Index})
	}
	return list
}

// hasResultOf reports whether the list has the result of the step that a key is about.
func (l stepList) hasResultOf(key string) bool {
	return slices.ContainsFunc(l, func(s listedStep) bool { return s.index > 0 && !s.IsPlan() && s.key() == resultKeyOf(key) })
}

func (l stepList) hasResult(id int) bool {
	return slices.ContainsFunc(l, func(s listedStep) bool { return s.index > 0 && !s.IsPlan() && s.ID == id })
}

// leadsOn reports whether an SDK goes on to the next step when the last one of the list
// is delivered. Of a parallel group it does so with the last result only (section
// 4.3).
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

// groupOf returns the plans of the group that a result belongs to, which lie side by
// side; none if it belongs to no group.
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

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
