package eventlog

import (
	"strconv"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
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

func encodeCursor(p posthaste.Position) string {
	return cursorMark + strconv.FormatUint(uint64(p), cursorBase)
}

// parseCursor reads a cursor, or a Unix time in milliseconds.
func parseCursor(text string) (place, error) {
	if digits, ok := strings.CutPrefix(text, cursorMark); ok {
		p, err := strconv.ParseUint(digits, cursorBase, 63)
		if position := posthaste.Position(p); err == nil && encodeCursor(position) == text {
			return place{position, position}, nil
		}
	} else if at, ok := parseMillis(text); ok {
		return place{posthaste.FirstPosition(at), posthaste.LastPosition(at)}, nil
	}
	return place{}, invalid("cursor", text, "the cursor of an earlier answer or a Unix time in milliseconds")
}

// continueAt moves the near end of a query's range to a cursor's place.
func continueAt(query *store.EventQuery, at place) {
	if query.OldestFirst {
		query.Low = max(query.Low, at.first)
	} else {
		query.High = min(query.High, at.last)
	}
}

// parseMillis reads a Unix time in milliseconds: digits, without a sign.
func parseMillis(text string) (time.Time, bool) {
	ms, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(ms)), true
}
