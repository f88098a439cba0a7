package runlog

import (
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Facts is what is known of a run.
type Facts struct {
	Run     *posthaste.Run
	Entries []posthaste.RunEntry
	Waiters []*posthaste.Waiter // of the run, first come first

	// Messages are those of the entries and of the run, without their bodies, as far as
	// they are still known: some entries never had one, and some are of an earlier run.
	Messages map[posthaste.MessageID]store.Status

	// First delivers the first entry. It may be another message than that of the
	// entry: some SDKs have it delivered once more, in their own words.
	First posthaste.MessageID

	Errors  map[posthaste.MessageID][]posthaste.Event // of the messages of Troubled, oldest first
	Invoked map[int]*Invoked                          // by the id of the step that invoked it
	Now     time.Time
}

// Invoked is what a run was given that another one invoked.
type Invoked struct {
	Run     *posthaste.Run
	Payload []byte
}

// size returns how many bytes of all that a run is shown with, of bodies as far as the
// limit. Each step shows a body, and what its request and its failed attempts had.
func (f *Facts) size(bodyLimit int) int {
	n := store.RunSize(f.Run)
	for _, entry := range f.Entries {
		n += min(len(entry.Body), bodyLimit)
	}
	for _, st := range f.Messages {
		n += store.MessageSize(st.Message)
	}
	for _, events := range f.Errors {
		for _, event := range events {
			n += min(store.ResponseSize(event.Response), bodyLimit)
		}
	}
	for _, invoked := range f.Invoked {
		n += min(len(invoked.Payload), bodyLimit) + store.RunSize(invoked.Run)
	}
	for _, w := range f.Waiters {
		n += min(len(w.Step), bodyLimit)
	}
	return n
}

// Troubled returns the messages whose failed attempts are of interest: those that
// were not delivered all the same, that failed the run, or tell of its failure.
func (f *Facts) Troubled() []posthaste.MessageID {
	var troubled []posthaste.MessageID
	for id, st := range f.Messages {
		retried := st.Retried > 0 && st.State != posthaste.StateDelivered
		if f.owns(st) && retried || f.failedBy(id) {
			troubled = append(troubled, id)
		}
	}
	if f.Run.Reported != nil {
		troubled = append(troubled, f.Run.Reported.MessageID)
	}
	return troubled
}

// owns reports whether a message is one of the run. An entry that was taken over
// from an earlier run has a message of that one, which says nothing about this one.
func (f *Facts) owns(st store.Status) bool {
	return st.Message != nil && st.Message.Run != nil && st.Message.Run.Position == f.Run.Position
}

// failedBy reports whether the run failed because a message did.
func (f *Facts) failedBy(id posthaste.MessageID) bool {
	return !id.IsZero() && f.Run.FailedID == id
}

// delivery returns where a message of the run stands. open is false for one that is
// not its own, or was delivered: there is nothing more to come of it.
func (f *Facts) delivery(id posthaste.MessageID) (st store.Status, open bool) {
	st = f.Messages[id]
	return st, f.owns(st) && st.State != posthaste.StateDelivered
}

// asleep reports whether the time of a message's first attempt has not come, or
// had not when the run ended.
func (f *Facts) asleep(id posthaste.MessageID) bool {
	st, open := f.delivery(id)
	if !open {
		return false
	}
	if st.State == posthaste.StateCancelled {
		return st.Message.NotBefore.After(f.Run.CompletedAt)
	}
	return st.Message.NotBefore.After(f.Now)
}

// stateOf returns the state of a step whose delivery stands so.
func stateOf(st store.Status) posthaste.StepState {
	switch st.State {
	case posthaste.StateRetry:
		return posthaste.StepRetry
	case posthaste.StateFailed:
		return posthaste.StepFailed
	case posthaste.StateCancelled:
		return posthaste.StepCancelled
	default:
		return posthaste.StepProgress
	}
}

// nextAt returns when a message will be attempted, in Unix milliseconds; 0 if there
// is nothing to wait for.
func (f *Facts) nextAt(st store.Status) int64 {
	if !st.NextAttemptAt.After(f.Now) {
		return 0
	}
	return st.NextAttemptAt.UnixMilli()
}
