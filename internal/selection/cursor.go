package selection

import (
	"strconv"
	"strings"
	"time"

	"posthaste"
)

// A cursor is "p" and the position to continue at in base 36. The letter keeps
// clients from taking it for a number, which might not survive as one, and from
// being mistaken for the other form that is read: a time, as loops begin with
// that know no cursor yet.
const (
	cursorMark = "p"
	cursorBase = 36
)

// place is where a cursor points: a position, or all those of a millisecond.
type place struct {
	first, last posthaste.Position
}

// Cursor returns the cursor that continues at a position.
func Cursor(p posthaste.Position) string {
	return cursorMark + strconv.FormatUint(uint64(p), cursorBase)
}

// parseCursor reads a cursor, or a Unix time in milliseconds.
func parseCursor(text string) (place, error) {
	if digits, ok := strings.CutPrefix(text, cursorMark); ok {
		p, err := strconv.ParseUint(digits, cursorBase, 63)
		if position := posthaste.Position(p); err == nil && Cursor(position) == text {
			return place{position, position}, nil
		}
	} else if at, ok := parseMillis(text); ok {
		return place{posthaste.FirstPosition(at), posthaste.LastPosition(at)}, nil
	}
	return place{}, invalid("cursor", text, "the cursor of an earlier answer or a Unix time in milliseconds")
}

// rangeOf is what selects by position: the near end moves to a cursor's place.
type rangeOf struct {
	low, high   *posthaste.Position
	oldestFirst bool
}

// readCursor moves the near end of a range to the place of a cursor.
func (r rangeOf) readCursor(p parameters) error {
	text, err := p.one("cursor")
	if text == "" || err != nil {
		return err
	}
	at, err := parseCursor(text)
	if err != nil {
		return err
	}
	if r.oldestFirst {
		*r.low = max(*r.low, at.first)
	} else {
		*r.high = min(*r.high, at.last)
	}
	return nil
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

// parseMillis reads a Unix time in milliseconds: digits, without a sign.
func parseMillis(text string) (time.Time, bool) {
	ms, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(ms)), true
}
