package store

import (
	"time"

	"posthaste"
)

// Submission is one publication: its messages, one for each endpoint, and what
// identifies it against repetition. A backend takes the messages over.
type Submission struct {
	Messages []*posthaste.Message
	// DedupKey, if not empty, is remembered for DedupWindow; a submission with the
	// same key within it is not accepted, unless all messages of the earlier one have
	// ended without delivery.
	DedupKey string
}

// DedupWindow is how long a submission is remembered.
const DedupWindow = 10 * time.Minute

// Undelivered reports whether a message in this state has ended and was not delivered: it
// is no reason to refuse a repetition.
func Undelivered(state posthaste.State) bool {
	return state == posthaste.StateFailed || state == posthaste.StateCancelled
}

// IDs returns the ids of the submission's messages.
func (s *Submission) IDs() []posthaste.MessageID {
	ids := make([]posthaste.MessageID, len(s.Messages))
	for i, m := range s.Messages {
		ids[i] = m.ID
	}
	return ids
}

// Accepted tells what became of a submission.
type Accepted struct {
	// IDs are those of its messages, or those of the earlier submission with the
	// same key if Deduplicated.
	IDs          []posthaste.MessageID
	Deduplicated bool
}
