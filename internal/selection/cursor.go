package selection

import (
	"strconv"
	"strings"

	"posthaste"
)

// A cursor is "p" and the position to continue at in base 36. The letter keeps
// clients from taking it for a number, which might not survive as one, and from
// being mistaken for the other form that is read: a time, as loops begin with
// that know no cursor yet. The cursor of a sweep is two such marks with a hyphen
// between them: where it continues, and where it ends.
const (
	cursorMark  = "p"
	cursorBase  = 36
	sweepHyphen = "-"
)

// Cursor returns the cursor that continues at a position.
func Cursor(next posthaste.Position) string {
	return cursorMark + strconv.FormatUint(uint64(next), cursorBase)
}

// SweepCursor returns the cursor that continues a sweep at a position and ends it
// where it ended before.
func SweepCursor(next, end posthaste.Position) string {
	return Cursor(next) + sweepHyphen + Cursor(end)
}

// FirstSweepCursor returns the cursor of the first page of a sweep between two
// positions.
func FirstSweepCursor(low, high posthaste.Position, oldestFirst bool) string {
	if oldestFirst {
		return SweepCursor(low, high)
	}
	return SweepCursor(high, high)
}

// ParseSweepCursor reads what SweepCursor wrote.
func ParseSweepCursor(text string) (next, end posthaste.Position, ok bool) {
	nextText, endText, ofSweep := strings.Cut(text, sweepHyphen)
	next, isNext := parsePosition(nextText)
	end, isEnd := parsePosition(endText)
	return next, end, ofSweep && isNext && isEnd
}

// parsePosition reads what Cursor wrote.
func parsePosition(text string) (posthaste.Position, bool) {
	digits, marked := strings.CutPrefix(text, cursorMark)
	p, err := strconv.ParseUint(digits, cursorBase, 63)
	position := posthaste.Position(p)
	return position, marked && err == nil && Cursor(position) == text
}

// rangeOf is what selects by position: the near end moves to a cursor's place.
type rangeOf struct {
	low, high   *posthaste.Position
	oldestFirst bool
}

// continueAt moves the near end to a place, which is one position or all those
// of a millisecond.
func (r rangeOf) continueAt(first, last posthaste.Position) {
	if r.oldestFirst {
		*r.low = max(*r.low, first)
	} else {
		*r.high = min(*r.high, last)
	}
}

// readCursor continues at a cursor, or at a Unix time in milliseconds.
func (r rangeOf) readCursor(p parameters) error {
	text, err := p.one("cursor")
	if text == "" || err != nil {
		return err
	}
	if at, ok := parsePosition(text); ok {
		r.continueAt(at, at)
		return nil
	}
	at, ok := parseMillis(text)
	if !ok {
		return invalid("cursor", text, "the cursor of an earlier answer or a Unix time in milliseconds")
	}
	r.continueAt(posthaste.FirstPosition(at), posthaste.LastPosition(at))
	return nil
}

// readSweepCursor continues a sweep and reports whether there was one to
// continue. It takes what readCursor takes too, and begins there.
func (r rangeOf) readSweepCursor(p parameters) (begun bool, err error) {
	text, err := p.one("cursor")
	if err != nil {
		return false, err
	}
	next, end, ofSweep := ParseSweepCursor(text)
	if !ofSweep {
		return false, r.readCursor(p)
	}
	r.continueAt(next, next)
	*r.high = min(*r.high, end)
	return true, nil
}

// readDates sets the ends of a range, both included.
func (r rangeOf) readDates(p parameters) error {
	from, given, err := p.date("fromDate")
	if err != nil {
		return err
	}
	if given {
		*r.low = posthaste.FirstPosition(from)
	}
	to, given, err := p.date("toDate")
	if given {
		*r.high = posthaste.LastPosition(to)
	}
	return err
}
