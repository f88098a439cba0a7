package posthaste

import "time"

// Position is the place of an event in the log: its time in milliseconds, a
// sequence number within that millisecond, and a slot, packed so that positions
// compare as numbers. Positions strictly increase in the order of commit, also
// while the wall clock steps back.
type Position uint64

const sequenceBits = 20 // with the slot

// MaxPosition comes after every position of the log.
const MaxPosition = Position(1<<63 - 1)

// FirstPosition returns the lowest position of t's millisecond.
func FirstPosition(t time.Time) Position {
	ms := t.UnixMilli()
	switch {
	case ms <= 0:
		return 0
	case ms >= int64(MaxPosition>>sequenceBits):
		return MaxPosition
	}
	return Position(ms) << sequenceBits
}

// LastPosition returns the highest position of t's millisecond.
func LastPosition(t time.Time) Position {
	return FirstPosition(t) | (1<<sequenceBits - 1)
}

// Time returns the time of the position, to the millisecond.
func (p Position) Time() time.Time { return time.UnixMilli(int64(p >> sequenceBits)) }

// Next returns the position in a slot for an event committed at now after one at p: among the first
// of now's millisecond, or right after p when the clock stands still or has stepped back.
func (p Position) Next(now time.Time, slot Slot) Position {
	next := max(p+1, FirstPosition(now))
	return next + (Position(slot)-next)%Slots
}
