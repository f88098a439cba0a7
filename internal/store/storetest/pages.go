package storetest

import (
	"net/http"
	"slices"
	"strings"

	"posthaste"
	"posthaste/internal/store"
)

// Pages are bounded in bytes by what is large in them, whatever it is. That none holds more
// is checked wherever one is read; here there is enough for several, and all of it is
// reached.
var pagePromises = []promise{
	{"pages of the log hold no more than they may", func(tr *trial) {
		const size = 16 << 10 // a page of the log may be asked to be small
		tr.failLarge(size)
		for _, query := range everyWay {
			want := tr.events(ann, store.EventQuery{High: posthaste.MaxPosition, OldestFirst: query.oldestFirst, Limit: 1})
			for _, bytes := range []int{size, 3 * size} {
				got := tr.events(ann, store.EventQuery{High: posthaste.MaxPosition, OldestFirst: query.oldestFirst, Limit: plenty, Bytes: bytes})
				if !slices.EqualFunc(got, want, func(a, b store.Entry) bool { return a.Position == b.Position }) {
					tr.Errorf("%s, pages of %d bytes: %d entries, want %d", query.name, bytes, len(got), len(want))
				}
			}
		}
	}},
	{"pages of the DLQ hold no more than they may", func(tr *trial) {
		failed := tr.failLarge(largePart)
		for _, query := range everyWay {
			all := store.DeadLetterQuery{High: posthaste.MaxPosition, OldestFirst: query.oldestFirst, Limit: plenty}
			if letters := tr.deadLetters(ann, all); len(letters) != failed {
				tr.Errorf("%s: %d dead letters, want %d", query.name, len(letters), failed)
			}
			tr.wantBarePages(all)
		}
	}},
	{"pages of runs hold no more than they may", func(tr *trial) {
		runs := tr.failLargeRuns()
		for _, query := range everyWay {
			for _, which := range []struct{ failed, bare bool }{{false, false}, {true, false}, {true, true}} {
				got := tr.runs(ann, store.RunQuery{
					High: posthaste.MaxPosition, OldestFirst: query.oldestFirst, Limit: plenty, Failed: which.failed, Bare: which.bare,
				})
				if len(got) != runs {
					tr.Errorf("%s, %+v: %d runs, want %d", query.name, which, len(got), runs)
				}
			}
		}
	}},
}

// everyWay is both orders of a query.
var everyWay = []struct {
	name        string
	oldestFirst bool
}{{"oldest first", true}, {"latest first", false}}

// largePart is the size of what is large, such that a page has room for five.
const largePart = store.PageBytes / 5

// largeHeader is a header of a size.
func largeHeader(size int) http.Header { return http.Header{"Large": {strings.Repeat("l", size)}} }

// largeResponse is an outcome with an answer of a size.
func largeResponse(size int) posthaste.Outcome {
	return posthaste.Outcome{Error: "no", Response: &posthaste.Response{Status: 500, Body: make([]byte, size)}}
}

// failLarge lets messages fail of which each has so many bytes in another place, and
// returns how many.
func (tr *trial) failLarge(size int) int {
	tr.Helper()
	answeredWithHeader := posthaste.Outcome{Error: "no", Response: &posthaste.Response{Status: 500, Header: largeHeader(size)}}
	for range 2 {
		tr.fail(tr.accept(func(m *posthaste.Message) { m.Body = make([]byte, size) }), unreachable)
		tr.fail(tr.accept(func(m *posthaste.Message) { m.Header = largeHeader(size) }), unreachable)
		tr.fail(tr.accept(), largeResponse(size))
		tr.fail(tr.accept(), answeredWithHeader)
	}
	return 2 * 4
}

// failLargeRuns lets runs fail of which each is large in another way, and returns how
// many.
func (tr *trial) failLargeRuns() int {
	tr.Helper()
	result := strings.Repeat("r", largePart)
	for range 3 {
		tr.addToDLQ(tr.firstOf(tr.start(func(run *posthaste.Run) { run.Header = largeHeader(largePart) })))
		tr.addToDLQ(tr.firstOf(tr.start(func(run *posthaste.Run) { run.Result = &result })))
		run, m := tr.start()
		tr.update(run, func(tx store.RunTx, run *posthaste.Run) error {
			addToDLQIn(tx, run, &posthaste.DeadLetter{Message: m, Error: "no", Response: largeResponse(largePart).Response})
			return nil
		})
	}
	return 3 * 3
}
