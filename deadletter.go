package posthaste

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DeadLetter is a message that failed for good, with the answer that sealed it.
// It rests in the DLQ until it is retried, deleted, or retention removes it.
type DeadLetter struct {
	ID       DeadLetterID
	Message  *Message
	Error    string
	Response *Response // nil if the destination gave none
}

// FailedAt returns when the message entered the DLQ.
func (d *DeadLetter) FailedAt() time.Time { return Position(d.ID).Time() }

// DeadLetterID identifies a dead letter: it is the position of the event that
// logged the failure, and so orders dead letters by the time they failed.
type DeadLetterID Position

// String returns the text form: Unix milliseconds, a dash, the sequence number.
func (id DeadLetterID) String() string {
	return fmt.Sprintf("%d-%d", uint64(id)>>sequenceBits, uint64(id)&(1<<sequenceBits-1))
}

// ParseDeadLetterID reads the text form. ok is false for any other text.
func ParseDeadLetterID(s string) (id DeadLetterID, ok bool) {
	msText, seqText, found := strings.Cut(s, "-")
	ms, msErr := strconv.ParseUint(msText, 10, 63-sequenceBits)
	seq, seqErr := strconv.ParseUint(seqText, 10, sequenceBits)
	if !found || msErr != nil || seqErr != nil {
		return 0, false
	}
	id = DeadLetterID(ms<<sequenceBits | seq)
	return id, id.String() == s
}
