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
	Waiters []*posthaste.Waiter // oldest first

	// Messages of the entries and of the run, without bodies. Some entries have none, or one of
	// an earlier run.
	Messages map[posthaste.MessageID]store.Status

	// First is the message of the first entry, or the one that delivers it again for some SDKs.
	First posthaste.MessageID

	Errors  map[posthaste.MessageID][]posthaste.Event // of messages in Troubled, oldest first
	Invoked map[int]*Invoked                          // by id of the invoking step
	Now     time.Time
}

// Invoked is an invoked run and its payload.
type Invoked struct {
	Run     *posthaste.Run
	Payload []byte
}

// size returns the bytes shown, counting up to bodyLimit bytes of each body.
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

// Troubled returns the messages whose failed attempts are shown: those retried and not delivered,
// the one that failed the run, and its failure callback.
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

// owns reports whether a message belongs to the run. Copied entries have messages of an earlier
// one.
func (f *Facts) owns(st store.Status) bool {
	return st.Message != nil && st.Message.Run != nil && st.Message.Run.Position == f.Run.Position
}

// failedBy reports whether the message failed the run.
func (f *Facts) failedBy(id posthaste.MessageID) bool {
	return !id.IsZero() && f.Run.FailedID == id
}

// delivery returns a message's status. open is false if it was delivered or belongs to another
// run.
func (f *Facts) delivery(id posthaste.MessageID) (st store.Status, open bool) {
	st = f.Messages[id]
	return st, f.owns(st) && st.State != posthaste.StateDelivered
}

// asleep reports whether a message's first attempt is not due, or was not when the run ended.
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

// stateOf returns the state of a step from its message.
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

// nextAt returns the next attempt in Unix milliseconds, 0 for none.
func (f *Facts) nextAt(st store.Status) int64 {
	if !st.NextAttemptAt.After(f.Now) {
		return 0
	}
	return st.NextAttemptAt.UnixMilli()
}
