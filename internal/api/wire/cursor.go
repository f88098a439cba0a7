package wire

import (
	"strconv"
	"strings"

	"posthaste"
)

// A cursor is "p" and a position in base 36. The letter distinguishes it from a number, which
// clients could round, and from a time, with which loops may begin. The cursor of a sweep is two
// of them with a hyphen: next and last position.
const (
	cursorMark  = "p"
	cursorBase  = 36
	sweepHyphen = "-"
)

// Cursor returns the cursor of a position.
func Cursor(next posthaste.Position) string {
	return cursorMark + strconv.FormatUint(uint64(next), cursorBase)
}

// SweepCursor returns the cursor of a sweep.
func SweepCursor(next, end posthaste.Position) string {
	return Cursor(next) + sweepHyphen + Cursor(end)
}

// FirstSweepCursor returns the cursor of a sweep's first page.
func FirstSweepCursor(low, high posthaste.Position, oldestFirst bool) string {
	if oldestFirst {
		return SweepCursor(low, high)
	}
	return SweepCursor(high, high)
}

// ParseSweepCursor parses the result of SweepCursor.
func ParseSweepCursor(text string) (next, end posthaste.Position, ok bool) {
	nextText, endText, ofSweep := strings.Cut(text, sweepHyphen)
	next, isNext := parsePosition(nextText)
	end, isEnd := parsePosition(endText)
	return next, end, ofSweep && isNext && isEnd
}

// parsePosition parses the result of Cursor.
func parsePosition(text string) (posthaste.Position, bool) {
	digits, marked := strings.CutPrefix(text, cursorMark)
	p, err := strconv.ParseUint(digits, cursorBase, 63)
	position := posthaste.Position(p)
	return position, marked && err == nil && Cursor(position) == text
}

// rangeOf is the range of a query, narrowed by cursors and dates.
type rangeOf struct {
	low, high   *posthaste.Position
	oldestFirst bool
}

// continueAt starts at a place, which is a position or all those of a millisecond.
func (r rangeOf) continueAt(first, last posthaste.Position) {
	if r.oldestFirst {
		*r.low = max(*r.low, first)
	} else {
		*r.high = min(*r.high, last)
	}
}

// readCursor starts at a cursor or a Unix time in milliseconds.
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

// readSweepCursor continues a sweep and reports whether the cursor was one of a sweep. It also
// accepts what readCursor does.
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

// readDates sets the range from dates, both inclusive.
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
