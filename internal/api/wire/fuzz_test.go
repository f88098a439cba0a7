package wire_test

import (
	"net/url"
	"strconv"
	"testing"

	"posthaste"
	"posthaste/internal/api/wire"
)

// FuzzCursor checks that a reader goes on exactly where a page ended, and that
// no client takes a cursor for a number (contract, messages 7 and decision 6).
func FuzzCursor(f *testing.F) {
	for _, seed := range []uint64{0, 1, 35, 36, ms << 20, uint64(posthaste.MaxPosition)} {
		f.Add(seed, seed+1)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		next, end := posthaste.Position(a)&posthaste.MaxPosition, posthaste.Position(b)&posthaste.MaxPosition
		page, sweep := wire.Cursor(next), wire.SweepCursor(next, end)
		for _, cursor := range []string{page, sweep} {
			if _, err := strconv.ParseFloat(cursor, 64); err == nil || url.QueryEscape(cursor) != cursor {
				t.Fatalf("cursor %q is a number or not safe in a URL", cursor)
			}
		}
		events, err := wire.Events(url.Values{"cursor": {page}}, wire.Count{})
		if err != nil || events.High != next {
			t.Fatalf("cursor %q of %d continues at %d, %v", page, next, events.High, err)
		}
		swept, begun, err := sweepLetters(url.Values{"cursor": {sweep}})
		if err != nil || !begun || swept.Low != next || swept.High != end {
			t.Fatalf("cursor %q of %d to %d continues at %+v, %v", sweep, next, end, swept, err)
		}
	})
}

// FuzzSelection checks that every parameter string is either a well-formed query
// or refused with CodeInvalid, and that a cursor that is read is one that was
// written.
func FuzzSelection(f *testing.F) {
	f.Add("cursor=p1&state=in_progress,ERROR&count=5&order=earliestFirst")
	f.Add("messageId=msg_1111111111111111111112&messageIds=msg_1111111111111111111112,x")
	f.Add("fromDate=1&toDate=18446744073709551615&url=a,b,,&callerIP=%00")
	f.Add("cursor=p1-p2&dlqIds=1700000000000-1&responseStatus=0&source=workflow&async=1")
	f.Fuzz(func(t *testing.T, raw string) {
		params, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		if events, err := wire.Events(params, thousand); err != nil {
			checkCode(t, err)
		} else if events.High > posthaste.MaxPosition || events.Limit < 1 || events.Limit > thousand.Most {
			t.Fatalf("Events(%q) = %+v", raw, events)
		}
		if live, err := live(params); err != nil {
			checkCode(t, err)
		} else if len(params["label"]) > 0 && len(live.Filter.Labels) == 0 {
			t.Fatalf("Live(%q) lost a filter: %+v", raw, live)
		}
		if list, err := deadLetters(params); err != nil {
			checkCode(t, err)
		} else if list.High > posthaste.MaxPosition {
			t.Fatalf("DeadLetters(%q) = %+v", raw, list)
		}
		if sweep, _, err := sweepLetters(params); err != nil {
			checkCode(t, err)
		} else if len(params["dlqIds"]) > 0 && len(sweep.Filter.DeadLetterIDs) == 0 {
			t.Fatalf("Sweep(%q) lost a filter: %+v", raw, sweep)
		}
	})
}

func checkCode(t *testing.T, err error) {
	t.Helper()
	if posthaste.ErrorCode(err) != posthaste.CodeInvalid {
		t.Fatalf("error %v, want CodeInvalid", err)
	}
}
