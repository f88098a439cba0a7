package posthaste

import "strings"

// State is the state of a message, and of each event of its log.
type State string

// The states of a message. Their meaning is that of the commission, section 3.
const (
	StateCreated         State = "CREATED"          // accepted and stored
	StateActive          State = "ACTIVE"           // an attempt is in flight
	StateRetry           State = "RETRY"            // another attempt is scheduled
	StateError           State = "ERROR"            // an attempt failed
	StateDelivered       State = "DELIVERED"        // the destination took it
	StateFailed          State = "FAILED"           // given up; a dead letter
	StateCancelRequested State = "CANCEL_REQUESTED" // the wish to cancel is recorded
	StateCancelled       State = "CANCELLED"        // the wish is granted
)

// The states of events about a run. Such an event is about the message
// of the run's first entry.
const (
	StateRunStarted   = State(RunStarted)
	StateRunSuccess   = State(RunSuccess)
	StateRunFailed    = State(RunFailed)
	StateRunCancelled = State(RunCancelled)
)

// OfRun reports whether an event in this state is about a run rather than about its
// message.
func (s State) OfRun() bool { return strings.HasPrefix(string(s), "RUN_") }

// OfAttempt reports whether an event in this state is the outcome of an attempt.
func (s State) OfAttempt() bool { return s == StateError || s == StateDelivered }

// States lists every state of a message, in the order of a message's life.
var States = []State{
	StateCreated, StateActive, StateRetry, StateError,
	StateDelivered, StateFailed, StateCancelRequested, StateCancelled,
}

// ParseState reads a state in any letter case. It also takes the spelling
// CANCELED, which the SDKs use.
func ParseState(s string) (State, bool) {
	upper := State(strings.ToUpper(s))
	if upper == "CANCELED" {
		return StateCancelled, true
	}
	for _, state := range States {
		if upper == state {
			return state, true
		}
	}
	return "", false
}

// Terminal reports whether a message in this state will never change again.
func (s State) Terminal() bool {
	return s == StateDelivered || s == StateFailed || s == StateCancelled
}
