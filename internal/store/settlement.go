package store

import (
	"time"

	"posthaste"
)

// Settlement ends a claim: the state the message enters and what is logged.
// Delivered, RetryAt, Failed and Dropped make them; Resolve changes them.
type Settlement struct {
	Claim    Claim
	State    posthaste.State // DELIVERED, RETRY, FAILED or CANCELLED
	Error    string
	Response *posthaste.Response
	NextAt   time.Time // when the next attempt is due; RETRY only

	// Callbacks, if not nil, makes the messages that tell of this settlement. For
	// one that failed, id is that of its dead letter.
	Callbacks func(id posthaste.DeadLetterID) ([]*posthaste.Message, error)

	// Conclude, if not nil, is called in the commit of the settlement, and writes
	// what that means for the run of the message. It may change the settlement:
	// what a message of a run that has ended does is of no interest any more.
	Conclude func(tx RunTx, settlement *Settlement) error

	// Stands, if not nil, is told in the commit what Resolve and Conclude have made of
	// the settlement. A commit that is tried again tells again: the last word counts.
	Stands func(Settlement)
}

// Tell says what the settlement has become to whom it concerns.
func (s Settlement) Tell() {
	if s.Stands != nil {
		s.Stands(s)
	}
}

// Delivered settles a claim whose attempt succeeded.
func Delivered(claim Claim) Settlement {
	return Settlement{Claim: claim, State: posthaste.StateDelivered}
}

// RetryAt settles a claim whose attempt failed, with another one due at next.
func RetryAt(claim Claim, next time.Time, outcome posthaste.Outcome) Settlement {
	return Settlement{
		Claim:    claim,
		State:    posthaste.StateRetry,
		Error:    outcome.Error,
		Response: outcome.Response,
		NextAt:   next,
	}
}

// Failed settles a claim whose attempt failed and was the last.
func Failed(claim Claim, outcome posthaste.Outcome) Settlement {
	return Settlement{
		Claim:    claim,
		State:    posthaste.StateFailed,
		Error:    outcome.Error,
		Response: outcome.Response,
	}
}

// Dropped settles a claim without an attempt: nobody waits for the message any
// more.
func Dropped(claim Claim) Settlement {
	return Settlement{Claim: claim, State: posthaste.StateCancelled}
}

// Resolve returns what the settlement of a message whose cancellation was asked
// for becomes: a delivery stands, anything else is a cancellation.
func (s Settlement) Resolve(cancelRequested bool) Settlement {
	if cancelRequested && s.State != posthaste.StateDelivered {
		s.State = posthaste.StateCancelled
		s.NextAt = time.Time{}
		s.Callbacks = nil
	}
	return s
}

// Events returns what the settlement adds to the log, in order, without
// positions: a failed attempt is an ERROR before it is anything else. FAILED repeats the
// reason, because people look for failed messages by that state.
func (s Settlement) Events() []posthaste.Event {
	id := s.Claim.Message.ID
	last := posthaste.Event{MessageID: id, State: s.State, NextDeliveryAt: s.NextAt}
	if s.State == posthaste.StateFailed {
		last.Error = s.Error
	}
	if s.State == posthaste.StateDelivered || s.Error == "" && s.Response == nil {
		return []posthaste.Event{last}
	}
	return []posthaste.Event{{
		MessageID:      id,
		State:          posthaste.StateError,
		Error:          s.Error,
		NextDeliveryAt: s.NextAt,
		Response:       s.Response,
	}, last}
}

// Created returns the first event of a message.
func Created(m *posthaste.Message) posthaste.Event {
	event := posthaste.Event{MessageID: m.ID, State: posthaste.StateCreated}
	if m.NotBefore.After(m.CreatedAt) {
		event.NextDeliveryAt = m.NotBefore
	}
	return event
}
