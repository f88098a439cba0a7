package eventlog_test

import (
	"net/url"
	"strconv"
	"testing"

	"posthaste"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// FuzzCursor checks that a reader goes on exactly where a page ended, and that
// no client takes a cursor for a number.
func FuzzCursor(f *testing.F) {
	for _, seed := range []uint64{0, 1, 35, 36, 1_700_000_000_000 << 20, uint64(posthaste.MaxPosition)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw uint64) {
		next := posthaste.Position(raw) & posthaste.MaxPosition
		page, err := queryOnce(t, url.Values{}, store.EventPage{More: true, Next: next}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := strconv.ParseFloat(page.Cursor, 64); err == nil || url.QueryEscape(page.Cursor) != page.Cursor {
			t.Fatalf("cursor %q is a number or not safe in a URL", page.Cursor)
		}
		var query store.EventQuery
		if _, err := queryOnce(t, url.Values{"cursor": {page.Cursor}}, store.EventPage{}, &query); err != nil {
			t.Fatal(err)
		}
		if query.High != next {
			t.Fatalf("cursor %q of %d continues at %d", page.Cursor, next, query.High)
		}
	})
}

// FuzzQuery checks that every parameter string is either a well-formed query or
// refused with CodeInvalid.
func FuzzQuery(f *testing.F) {
	f.Add("cursor=p1&state=in_progress,ERROR&count=5&order=earliestFirst")
	f.Add("messageId=msg_1111111111111111111112&messageIds=msg_1111111111111111111112,x")
	f.Add("fromDate=1&toDate=18446744073709551615&url=a,b,,&callerIP=%00")
	f.Fuzz(func(t *testing.T, raw string) {
		params, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		query := store.EventQuery{Limit: 1}
		if _, err := queryOnce(t, params, store.EventPage{}, &query); err != nil {
			if posthaste.ErrorCode(err) != posthaste.CodeInvalid {
				t.Fatalf("Query(%q): %v", raw, err)
			}
			return
		}
		if query.Low > query.High || query.High > posthaste.MaxPosition || query.Limit < 1 || query.Limit > 1000 {
			t.Fatalf("Query(%q) asks for %+v", raw, query)
		}
	})
}

// queryOnce asks a store that gives one answer, and notes what it was asked.
func queryOnce(t *testing.T, params url.Values, answer store.EventPage, asked *store.EventQuery) (eventlog.Page, error) {
	log := eventlog.New(eventlog.Options{Store: fakeStore(func(_ string, query store.EventQuery) (store.EventPage, error) {
		if asked != nil {
			*asked = query
		}
		return answer, nil
	})})
	return log.Query(t.Context(), "ann", params)
}
