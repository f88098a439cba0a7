package eventlog_test

import (
	"net/url"
	"testing"

	"posthaste"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// FuzzQuery checks that every parameter string is either a well-formed query,
// refused with CodeInvalid, or one that nothing matches.
func FuzzQuery(f *testing.F) {
	f.Add("cursor=p1&state=in_progress,ERROR&count=5&order=earliestFirst")
	f.Add("fromDate=1&toDate=18446744073709551615&url=a,b,,&callerIP=%00")
	f.Add("fromDate=2&toDate=1")
	f.Fuzz(func(t *testing.T, raw string) {
		params, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		log := eventlog.New(eventlog.Options{Store: fakeStore(func(_ string, query store.EventQuery) (store.EventPage, error) {
			if query.Low > query.High || query.High > posthaste.MaxPosition || query.Limit < 1 || query.Limit > 1000 {
				t.Fatalf("Query(%q) asks for %+v", raw, query)
			}
			return store.EventPage{}, nil
		})})
		if _, err := log.Query(t.Context(), "ann", params, unseen); err != nil && posthaste.ErrorCode(err) != posthaste.CodeInvalid {
			t.Fatalf("Query(%q): %v", raw, err)
		}
	})
}

// FuzzFollow checks that every parameter string and every id of an event is either
// refused with CodeInvalid, or makes a follower whose mark it would take up.
func FuzzFollow(f *testing.F) {
	f.Add("cursor=p1&state=in_progress&count=5", "p2")
	f.Add("fromDate=1&toDate=18446744073709551615", "1700000000000")
	f.Add("order=latestFirst", "0-17")
	f.Fuzz(func(t *testing.T, raw, last string) {
		params, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		log := eventlog.New(eventlog.Options{Store: newGrowing()})
		follower, err := log.Follow(t.Context(), "ann", params, last)
		if err != nil {
			if posthaste.ErrorCode(err) != posthaste.CodeInvalid {
				t.Fatalf("Follow(%q, %q): %v", raw, last, err)
			}
			return
		}
		again, err := log.Follow(t.Context(), "ann", params, follower.Mark())
		if err != nil || again.Mark() != follower.Mark() {
			t.Fatalf("Follow(%q, %q) has the mark %q, which it does not take up: %v", raw, last, follower.Mark(), err)
		}
	})
}
