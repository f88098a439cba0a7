package posthaste

import (
	"net/http"
	"time"
)

// Event is one entry of the log: a message entered a state.
type Event struct {
	Position       Position // set by the store when it commits
	MessageID      MessageID
	State          State
	Error          string    // what went wrong, for people; on StateError and StateFailed
	NextDeliveryAt time.Time // when the next attempt is due, if one is planned
	Response       *Response // what the destination answered; on StateError only
	Attempt        Attempt   // what came of it; on StateError and StateDelivered
}

// Attempt is what the log keeps of every attempt.
type Attempt struct {
	Status int           // of the destination's response; 0: none
	Took   time.Duration // from the start of the request to its result, in whole milliseconds
}

// Response is a destination's answer, as much of it as is kept.
type Response struct {
	Status    int
	Header    http.Header
	Body      []byte
	Truncated bool // the answer was larger than what is kept
}
