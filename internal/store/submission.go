package store

import (
	"time"

	"posthaste"
)

// Submission is one publication: a message for each endpoint. The backend takes ownership of the
// messages.
type Submission struct {
	Messages []*posthaste.Message
	// DedupKey, if not empty, identifies the publication. Another submission with the same key
	// within DedupWindow is not accepted, unless all messages of the earlier one have failed or
	// were cancelled.
	DedupKey string
}

// DedupWindow is how long a DedupKey is stored.
const DedupWindow = 10 * time.Minute

// Undelivered reports whether a message ended without delivery, so that a repetition is accepted.
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

// Accepted is the result of a submission.
type Accepted struct {
	// IDs of its messages or, if Deduplicated, of the earlier submission with the same key.
	IDs          []posthaste.MessageID
	Deduplicated bool
}
