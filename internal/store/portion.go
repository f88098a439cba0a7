package store

import (
	"time"

	"posthaste"
)

// What one commit does of something that is done to many things. It is in memory as a
// whole until it is durable, and other changes wait for it: of its user, or of all.
const (
	PortionBytes = 4 << 20     // of what is read, as Entry.Size and its like count it
	PortionTime  = time.Second // by the clock of the machine
)

// Portion is how much a commit has done of that.
type Portion struct {
	begun time.Time
	bytes int
}

// NewPortion returns that of a commit which begins.
func NewPortion() Portion { return Portion{begun: time.Now()} }

// Take counts what is read.
func (p *Portion) Take(size int) { p.bytes += size }

// Full reports whether the commit has done enough, if it has done anything.
func (p *Portion) Full() bool { return p.bytes >= PortionBytes || time.Since(p.begun) >= PortionTime }

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
