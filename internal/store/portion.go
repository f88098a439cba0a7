package store

import (
	"time"

	"posthaste"
)

// What one commit does of something that is done to many things. It is in memory as a
// whole until it is durable, and other changes wait for it: of its user, or of all.
const (
	BatchBytes = 4 << 20     // of what is read, as Entry.Size and its like count it
	BatchTime  = time.Second // by the clock of the machine
)

// BatchLimit is how much a commit has done of that.
type BatchLimit struct {
	begun time.Time
	bytes int
}

// NewBatchLimit returns that of a commit which begins.
func NewBatchLimit() BatchLimit { return BatchLimit{begun: time.Now()} }

// Take counts what is read.
func (p *BatchLimit) Take(size int) { p.bytes += size }

// Full reports whether the commit has done enough, if it has done anything.
func (p *BatchLimit) Full() bool { return p.bytes >= BatchBytes || time.Since(p.begun) >= BatchTime }

// StepLeaving returns the step of a bulk action that a change is part of, when it leaves
// some of its ids for another one. nil: the change is part of no bulk action.
type StepLeaving func(left []posthaste.DeadLetterID) *Step

// Of returns that step, nil if there is none.
func (s StepLeaving) Of(left []posthaste.DeadLetterID) *Step {
	if s == nil {
		return nil
	}
	return s(left)
}
