package flow

import (
	"math"

	"posthaste"
)

// Slots decides which messages of a lane may start an attempt.
//
// A queue has as many slots as its parallelism. A message takes one with its first attempt and
// keeps it through its retries, and then until its callbacks have ended. Messages begin in
// order: none overtakes an earlier one that has not begun. Those that have begun do not wait for
// each other, unless the parallelism was lowered below the number of slots in use: then attempts
// in flight go on, and the earlier of the others come first. A paused queue starts nothing.
//
// In a lane that is not a queue only the first message may start.
//
// The caller passes the lane's messages that are not claimed to Next, in order. A value serves
// one such pass, so make another one once an attempt has started.
type Slots struct {
	free   int  // slots that no attempt and no message passed to Next uses
	kept   int  // slots used by messages that have not been passed to Next
	headed bool // a message that has not begun was passed to Next
}

// Standing is what a message that is not claimed has of the slots of its lane.
type Standing uint8

// In a lane that is not a queue, every message counts as NotBegun.
const (
	NotBegun Standing = iota // it uses no slot
	Begun                    // it waits for a retry
	Lingers                  // it has ended, and waits for its callbacks to end
)

// QueueSlots returns the slots of a queue that has a number of attempts in flight, and of whose
// other messages a number are Begun or Lingers.
func QueueSlots(queue *posthaste.Queue, inFlight, kept int) Slots {
	if queue.Paused {
		return Slots{}
	}
	return Slots{free: queue.Parallelism - inFlight, kept: kept}
}

// NoSlots is for a lane that is not a queue.
func NoSlots() Slots { return Slots{free: math.MaxInt} }

// Next reports whether the next message may start an attempt once it is due.
func (s *Slots) Next(m Standing) bool {
	if m == NotBegun {
		first := !s.headed
		s.headed = true
		return first && s.kept < s.free
	}
	may := m == Begun && s.free > 0
	s.free--
	s.kept--
	return may
}

// Done reports whether no later message may start, whatever its standing.
func (s *Slots) Done() bool { return s.free <= 0 || s.headed && s.kept <= 0 }
