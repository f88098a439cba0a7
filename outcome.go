package posthaste

import "time"

// OutcomeClass says what an attempt's result means for the message.
type OutcomeClass uint8

// The classes of outcomes.
const (
	OutcomeRetryable OutcomeClass = iota // failed; another attempt may do better
	OutcomeDelivered                     // the destination took it
	OutcomePermanent                     // failed, and the destination asks not to retry
)

// String returns the class as metrics and logs spell it.
func (c OutcomeClass) String() string {
	switch c {
	case OutcomeDelivered:
		return "delivered"
	case OutcomePermanent:
		return "permanent"
	default:
		return "retryable"
	}
}

// Outcome is the result of one attempt. A failed delivery is an outcome, not an
// error: errors are reserved for our own faults.
type Outcome struct {
	Class    OutcomeClass
	Response *Response     // nil when the destination gave no complete answer
	Error    string        // why it was not delivered, for people; "" when it was
	Duration time.Duration // from the start of the request to its result

	TimedOut bool // the destination gave no complete answer in time

	Unsigned error // why no request was made, if it could not be signed

	// RetryAfter is how long the destination asked us to wait, if HasRetryAfter.
	RetryAfter    time.Duration
	HasRetryAfter bool
}

// Attempt returns what the log keeps. An attempt takes at least a millisecond.
func (o *Outcome) Attempt() Attempt {
	a := Attempt{Took: max(o.Duration.Round(time.Millisecond), time.Millisecond)}
	if o.Response != nil {
		a.Status = o.Response.Status
	}
	return a
}
