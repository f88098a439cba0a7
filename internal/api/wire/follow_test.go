package wire_test

import (
	"net/url"
	"testing"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/eventlog"
)

func TestFollowRefuses(t *testing.T) {
	tests := []struct{ name, params, last, want string }{
		{"another order", "order=latestFirst", "", "order latestFirst is not possible here: entries are sent as they are written, give earliestFirst or none"},
		{"a bad order", "order=random", "", `order "random" is not earliestFirst or latestFirst`},
		{"a bad filter", "state=DONE", "", `state "DONE" is not one of CREATED, ACTIVE, RETRY, ERROR, DELIVERED, FAILED, CANCEL_REQUESTED, CANCELLED, IN_PROGRESS`},
		{"a bad cursor", "cursor=x", "p1", `cursor "x" is not the cursor of an earlier answer or a Unix time in milliseconds`},
		{"a last entry with a bad rest", "count=5", "p1-x", `Last-Event-ID "p1-x" is not the id of an event of this stream or a Unix time in milliseconds`},
		{"a last entry with less than nothing left", "count=5", "p1--1", `Last-Event-ID "p1--1" is not the id of an event of this stream or a Unix time in milliseconds`},
		{"a time with a rest", "count=5", "17-3", `Last-Event-ID "17-3" is not the id of an event of this stream or a Unix time in milliseconds`},
		{"a bad last entry", "", "x", `Last-Event-ID "x" is not the id of an event of this stream or a Unix time in milliseconds`},
		{"no count", "count=0", "", `count "0" is not a whole number of at least 1`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := wire.Follow(parse(t, test.params), test.last)
			checkRefused(t, err, test.want)
		})
	}
}

// FuzzFollow checks that every parameter string and every id of an event is either refused with
// CodeInvalid, or a query that goes on where it begins.
func FuzzFollow(f *testing.F) {
	f.Add("cursor=p1&state=in_progress&count=5", "p2")
	f.Add("fromDate=1&toDate=18446744073709551615", "1700000000000")
	f.Add("order=latestFirst", "0-17")
	f.Fuzz(func(t *testing.T, raw, last string) {
		params, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		query, _, err := wire.Follow(params, last)
		if err != nil {
			checkCode(t, err)
			return
		}
		if !query.OldestFirst || query.Low > posthaste.MaxPosition || query.Limit < 0 {
			t.Fatalf("Follow(%q, %q) = %+v", raw, last, query)
		}
		mark := wire.Mark(eventlog.Mark{Next: query.Low, Left: query.Limit})
		again, fromNow, err := wire.Follow(params, mark)
		if err != nil || fromNow || again.Low != query.Low || again.Limit != query.Limit {
			t.Fatalf("Follow(%q, %q) has the mark %q, which continues with %+v, %v", raw, last, mark, again, err)
		}
	})
}
