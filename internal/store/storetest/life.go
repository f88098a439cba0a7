package storetest

import (
	"errors"
	"fmt"

	"posthaste"
)

// phase is how far a message's life has come, as far as it decides which events
// may follow.
type phase string

const (
	unborn       phase = "before its first event"
	waiting      phase = "waiting"
	running      phase = "claimed"
	failing      phase = "in the middle of a failure"
	asked        phase = "asked to be cancelled"
	askedRunning phase = "claimed and asked to be cancelled"
	askedFailing phase = "in the middle of a failure, asked to be cancelled"
	ended        phase = "ended"
)

// follows says which events may follow in each phase, and where they lead. A
// claim that was released or lost in a crash leaves no event, so ACTIVE may
// follow ACTIVE; a claim and a cancellation that cross may be logged in either
// order, so ACTIVE may also follow CANCEL_REQUESTED.
var follows = map[phase]map[posthaste.State]phase{
	unborn: {
		posthaste.StateCreated: waiting,
	},
	waiting: {
		posthaste.StateActive:          running,
		posthaste.StateCancelRequested: asked,
	},
	running: {
		posthaste.StateActive:          running,
		posthaste.StateDelivered:       ended,
		posthaste.StateError:           failing,
		posthaste.StateCancelRequested: askedRunning,
	},
	failing: {
		posthaste.StateRetry:  waiting,
		posthaste.StateFailed: ended,
	},
	asked: {
		posthaste.StateActive:    askedRunning,
		posthaste.StateCancelled: ended,
	},
	askedRunning: {
		posthaste.StateActive:    askedRunning,
		posthaste.StateDelivered: ended,
		posthaste.StateError:     askedFailing,
		posthaste.StateCancelled: ended,
	},
	askedFailing: {
		posthaste.StateCancelled: ended,
	},
}

// CheckLife returns an error unless the states, oldest first, are those of a
// message's events from its first one on. The message need not have ended, but
// the events of one commit must be complete: a life cannot stop at ERROR.
func CheckLife(states []posthaste.State) error { return checkLife(states, false) }

// checkLife is CheckLife, also for messages of runs: nobody needs to ask for the
// cancellation of one whose run has ended while it was claimed.
func checkLife(states []posthaste.State, ofRun bool) error {
	if len(states) == 0 {
		return errors.New("no events at all")
	}
	now := unborn
	for i, state := range states {
		next, ok := follows[now][state]
		if ofRun && state == posthaste.StateCancelled && (now == running || now == failing) {
			next, ok = ended, true
		}
		if !ok {
			return fmt.Errorf("event %d of %v: %s cannot follow in a life that is %s", i+1, states, state, now)
		}
		now = next
	}
	if now == failing || now == askedFailing {
		return fmt.Errorf("%v: the commit that logged ERROR must log what came of it", states)
	}
	return nil
}
