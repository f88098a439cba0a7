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

// parseSweepCursor parses the result of SweepCursor.
func parseSweepCursor(text string) (next, end posthaste.Position, ok bool) {
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

// Range is what of a query is left: the positions within its dates, from its cursor on.
type Range struct {
	Low, High   posthaste.Position // both inclusive
	OldestFirst bool
}

// continueAt starts at a place, which is a position or all those of a millisecond.
func (r *Range) continueAt(first, last posthaste.Position) {
	if r.OldestFirst {
		r.Low = max(r.Low, first)
	} else {
		r.High = min(r.High, last)
	}
}

// readCursor starts at a cursor or a Unix time in milliseconds.
func (r *Range) readCursor(p parameters) error {
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
func (r *Range) readSweepCursor(p parameters) (begun bool, err error) {
	text, err := p.one("cursor")
	if err != nil {
		return false, err
	}
	next, end, ofSweep := parseSweepCursor(text)
	if !ofSweep {
		return false, r.readCursor(p)
	}
	r.continueAt(next, next)
	r.High = min(r.High, end)
	return true, nil
}
