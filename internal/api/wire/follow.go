package wire

import (
	"maps"
	"net/url"
	"strconv"
	"strings"

	"posthaste"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// Follow reads the parameters of a stream of new entries, in which a cursor means earliestFirst.
// The stream begins after the entry with the mark that the client has read last, at the cursor, or
// at fromDate, whatever is given and latest; otherwise fromNow.
func Follow(params url.Values, last string) (query store.EventQuery, fromNow bool, err error) {
	ascending := url.Values{}
	maps.Copy(ascending, params)
	if ascending.Get("order") == "" {
		ascending.Set("order", earliestFirst)
	}
	if query, err = Events(ascending, Count{Default: eventlog.Unbounded}); err != nil {
		return query, false, err
	}
	if !query.OldestFirst {
		return query, false, posthaste.Invalidf("order latestFirst is not possible here: entries are sent as they are written, give earliestFirst or none")
	}
	if last == "" {
		return query, params.Get("cursor") == "" && params.Get("fromDate") == "", nil
	}
	mark, ok := parseMark(last)
	if !ok {
		return query, false, posthaste.Invalidf("Last-Event-ID %.100q is not the id of an event of this stream or a Unix time in milliseconds", last)
	}
	query.Low, query.Limit = max(query.Low, mark.Next), min(query.Limit, mark.Left)
	return query, false, nil
}

// A mark is a cursor. If a count bounds the stream, a hyphen and the number of remaining entries
// follow, so that a client that repeats its request gets those and not as many as at first.
const markHyphen = "-"

// Mark returns the text of a mark.
func Mark(m eventlog.Mark) string {
	if m.Left == eventlog.Unbounded {
		return Cursor(m.Next)
	}
	return Cursor(m.Next) + markHyphen + strconv.Itoa(m.Left)
}

// parseMark parses a mark or, as in a cursor, a time.
func parseMark(text string) (m eventlog.Mark, ok bool) {
	cursor, left, counted := strings.Cut(text, markHyphen)
	if !counted {
		m.Left = eventlog.Unbounded
		begin := Range{OldestFirst: true}
		err := begin.readCursor(parameters{"cursor": {cursor}})
		m.Next = begin.Low
		return m, err == nil
	}
	number, err := strconv.ParseUint(left, 10, strconv.IntSize-1)
	m.Left = int(number)
	m.Next, ok = parsePosition(cursor)
	return m, ok && err == nil
}
