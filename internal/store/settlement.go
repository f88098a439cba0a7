package store

import (
	"slices"
	"time"

	"posthaste"
)

// Settlement ends a claim: the new state and what is logged. Made by Delivered, RetryAt, Failed
// and Dropped.
type Settlement struct {
	Claim    Claim
	State    posthaste.State // DELIVERED, RETRY, FAILED or CANCELLED
	Error    string
	Response *posthaste.Response
	Attempt  posthaste.Attempt // what the log keeps of it
	NextAt   time.Time         // next attempt; RETRY only

	Callbacks []Callback // messages that are accepted with it

	// UpdateRun, if not nil, is called in the commit to update the message's run. It may change
	// the settlement, for example if the run has ended.
	UpdateRun func(tx RunTx, settlement *Settlement) error
}

// Callback is a callback message. Its body may name the dead letter that the settlement makes,
// whose id is known only in the commit.
type Callback struct {
	Message      *posthaste.Message
	DeadLetterAt int // where the id is inserted into the body; 0: nowhere
}

// For returns the message for a dead letter.
func (c *Callback) For(id posthaste.DeadLetterID) *posthaste.Message {
	if c.DeadLetterAt == 0 {
		return c.Message
	}
	m := *c.Message
	m.Body = slices.Concat(m.Body[:c.DeadLetterAt], []byte(id.String()), m.Body[c.DeadLetterAt:])
	return &m
}

// Delivered settles a claim whose attempt succeeded.
func Delivered(claim Claim) Settlement {
	return Settlement{Claim: claim, State: posthaste.StateDelivered}
}

// RetryAt settles a claim whose attempt failed; the next one is due at next.
func RetryAt(claim Claim, next time.Time, outcome posthaste.Outcome) Settlement {
	return Settlement{
		Claim:    claim,
		State:    posthaste.StateRetry,
		Error:    outcome.Error,
		Response: outcome.Response,
		NextAt:   next,
	}
}

// Failed settles a claim whose last attempt failed.
func Failed(claim Claim, outcome posthaste.Outcome) Settlement {
	return Settlement{
		Claim:    claim,
		State:    posthaste.StateFailed,
		Error:    outcome.Error,
		Response: outcome.Response,
	}
}

// Dropped settles a claim without an attempt, because the message is obsolete.
func Dropped(claim Claim) Settlement {
	return Settlement{Claim: claim, State: posthaste.StateCancelled}
}

// Resolve applies a requested cancellation: a delivery stays one, anything else becomes a
// cancellation.
func (s Settlement) Resolve(cancelRequested bool) Settlement {
	if cancelRequested && s.State != posthaste.StateDelivered {
		s.State = posthaste.StateCancelled
		s.NextAt = time.Time{}
		s.Callbacks = nil
	}
	return s
}

// Events returns the log events of the settlement in order, without positions. A failed attempt
// starts with an ERROR. FAILED repeats the reason because people search for that state.
func (s Settlement) Events() []posthaste.Event {
	id := s.Claim.Message.ID
	last := posthaste.Event{MessageID: id, State: s.State, NextDeliveryAt: s.NextAt}
	if s.State == posthaste.StateFailed {
		last.Error = s.Error
	}
	if s.State == posthaste.StateDelivered {
		last.Attempt = s.Attempt
		return []posthaste.Event{last}
	}
	if s.Error == "" && s.Response == nil {
		return []posthaste.Event{last}
	}
	return []posthaste.Event{{
		MessageID:      id,
		State:          posthaste.StateError,
		Error:          s.Error,
		NextDeliveryAt: s.NextAt,
		Response:       s.Response,
		Attempt:        s.Attempt,
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
