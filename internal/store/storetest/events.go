package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Contract, messages 2.10 and decision 6.
var eventsPromises = slices.Concat(queryPromises(eventsOfHistory, noMessageHas), []promise{
	{"an empty log has no events", func(tr *trial) {
		for _, oldestFirst := range []bool{true, false} {
			page, err := store.ReadEvents(tr.Context(), tr.store, ann, store.EventQuery{
				High: posthaste.MaxPosition, OldestFirst: oldestFirst, Limit: 1,
			})
			if err != nil || len(page.Entries) > 0 || page.More {
				tr.Errorf("Events = %v, %v, want an empty last page", page, err)
			}
		}
	}},
	{"many values of two fields filter", checkManyValues},
	{"who looks at no bodies is shown all the rest", checkBare},
	{"what was visited does not change afterwards", checkVisited},
	{"a visitor that fails ends the call", checkFailingVisitor},
	{"a range of nothing is empty", func(tr *trial) {
		p := tr.logOf(tr.accept())[0].Position
		for _, query := range []store.EventQuery{
			{Low: p + 1, High: posthaste.MaxPosition, Limit: 1},
			{Low: p + 1, High: p, Limit: 1},
			{Low: p + 1, High: p - 1, Limit: 1},
			{High: p - 1, Limit: 1},
		} {
			for _, query.OldestFirst = range []bool{true, false} {
				if entries := tr.events(ann, query); len(entries) > 0 {
					tr.Errorf("%d events from %d to %d, the only one is at %d", len(entries), query.Low, query.High, p)
				}
			}
		}
	}},
	{"pages of every size make the same log", func(tr *trial) {
		log := eventsOfHistory(tr)
		latestFirst := tr.events(ann, store.EventQuery{High: posthaste.MaxPosition, Limit: plenty})
		slices.Reverse(latestFirst)
		tr.same("log, latest first", log.things, latestFirst)
		for _, limit := range []int{1, 2, 7, len(log.things), plenty} {
			for _, oldestFirst := range []bool{true, false} {
				log.compare(question{high: posthaste.MaxPosition, oldestFirst: oldestFirst, limit: limit})
			}
		}
	}},
	{"events written while a reader pages do not disturb it", func(tr *trial) {
		for _, oldestFirst := range []bool{true, false} {
			tr.checkPagingWhileWriting(oldestFirst)
		}
	}},
	{"a reader that follows the log misses nothing", checkFollowing},
})

// eventsOfHistory is the whole log of ann when there was some life.
func eventsOfHistory(tr *trial) *archive[store.Entry] {
	tr.makeHistory()
	log := tr.wholeLog(ann)
	if len(log) < 100 {
		tr.Fatalf("a log of %d events, more were written", len(log))
	}
	return tr.eventArchive(log, eventFields)
}

// checkManyValues asks for half of the labels and half of the URLs there are, and for many
// that nobody has.
func checkManyValues(tr *trial) {
	log := eventsOfHistory(tr)
	var filter posthaste.Filter
	for n := range 50 {
		filter.Labels = append(append(filter.Labels, log.any().Message.Labels...), fmt.Sprint("nobody's ", n))
		filter.URLs = append(filter.URLs, log.any().Message.URL, fmt.Sprint("https://nobody.example/", n))
	}
	for _, oldestFirst := range []bool{true, false} {
		for _, limit := range []int{plenty, 40, 7} {
			log.compare(question{filter: filter, high: posthaste.MaxPosition, oldestFirst: oldestFirst, limit: limit})
		}
		log.compare(question{filter: filter, high: posthaste.MaxPosition, oldestFirst: oldestFirst, limit: plenty, bytes: 1}) // no room for a second
	}
}

func sameEntry(a, b store.Entry) bool {
	return a.Position == b.Position && a.State == b.State &&
		a.MessageID == b.MessageID && a.Message.ID == b.Message.ID
}

func entriesText(entries []store.Entry) string {
	var text strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&text, "%d %s %s\n", e.Position, e.State, e.MessageID)
	}
	return text.String()
}

func checkBare(tr *trial) {
	for _, body := range []string{"", "small", strings.Repeat("large ", 10_000)} {
		tr.accept(func(m *posthaste.Message) { m.Body = []byte(body) })
	}
	whole := tr.events(ann, store.EventQuery{High: posthaste.MaxPosition, Limit: plenty})
	bare := tr.events(ann, store.EventQuery{High: posthaste.MaxPosition, Limit: plenty, Bare: true})
	tr.same("events without bodies", withoutBodies(whole), withoutBodies(bare))
}

// checkVisited has several readers of two users keep what they are shown, each of which is
// compared with what it was when all of them have read their pages.
func checkVisited(tr *trial) {
	log := eventsOfHistory(tr)
	for range 50 {
		tr.accept(ownedBy(anna), delayed(never))
	}
	var readers sync.WaitGroup
	var kept [4][]store.Entry
	var texts [4][]string
	for n, user := range []string{ann, ann, anna, anna} {
		readers.Go(func() { kept[n], texts[n] = tr.keepVisited(log.things, user, rand.New(rand.NewPCG(7, uint64(n)))) })
	}
	readers.Wait()
	for n := range kept {
		for i := range kept[n] {
			if now := wholeText(&kept[n][i]); now != texts[n][i] {
				tr.Fatalf("an entry was shown as\n%s\nand is now\n%s", texts[n][i], now)
			}
		}
	}
}

// keepVisited reads pages of a user's log. It returns their entries, and what each showed in
// its visit.
func (tr *trial) keepVisited(log []store.Entry, user string, rng *rand.Rand) (kept []store.Entry, texts []string) {
	for range 50 {
		query := store.EventQuery{High: posthaste.MaxPosition, Limit: 1 + rng.IntN(50), OldestFirst: rng.IntN(2) == 0}
		if field := rng.IntN(2 * len(eventFields)); field < len(eventFields) {
			eventFields[field].ask(&query.Filter, log[rng.IntN(len(log))])
		}
		_, _, err := tr.store.Events(tr.Context(), user, query, func(entry *store.Entry) error {
			if entry.Message.User != user {
				return fmt.Errorf("%s is shown a message of %s", user, entry.Message.User)
			}
			kept, texts = append(kept, *entry), append(texts, wholeText(entry))
			return nil
		})
		if err != nil {
			tr.Error(err)
			break
		}
	}
	return kept, texts
}

// wholeText returns all that an entry shows as a text.
func wholeText(e *store.Entry) string {
	return fmt.Sprintf("%+v %+v %+v", e.Event, e.Response, *e.Message)
}

func checkFailingVisitor(tr *trial) {
	for range 5 {
		tr.accept()
	}
	enough := errors.New("enough")
	for _, oldestFirst := range []bool{true, false} {
		visits := 0
		query := store.EventQuery{High: posthaste.MaxPosition, OldestFirst: oldestFirst, Limit: plenty}
		_, _, err := tr.store.Events(tr.Context(), ann, query, func(*store.Entry) error {
			if visits++; visits == 3 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || visits != 3 {
			tr.Errorf("Events = %v after %d visits, want the error of the third", err, visits)
		}
	}
}

func withoutBodies(entries []store.Entry) []store.Entry {
	all := slices.Clone(entries)
	for i, entry := range all {
		m := *entry.Message
		m.Body = nil
		all[i] = store.NewEntry(entry.Event, &m)
	}
	return all
}

// checkPagingWhileWriting accepts messages between the pages of a reader, who
// must see each event that was there before exactly once.
func (tr *trial) checkPagingWhileWriting(oldestFirst bool) {
	tr.Helper()
	for range 10 {
		tr.accept()
	}
	before := tr.wholeLog(ann)
	query := store.EventQuery{High: posthaste.MaxPosition, OldestFirst: oldestFirst, Limit: 3}
	seen := map[posthaste.Position]int{}
	for pages := 0; pages < 1000; pages++ {
		page, err := store.ReadEvents(tr.Context(), tr.store, ann, query)
		if err != nil {
			tr.Fatal(err)
		}
		for _, e := range page.Entries {
			seen[e.Position]++
		}
		if !page.More {
			break
		}
		query = nextQuery(query, page)
		if pages < 5 {
			tr.accept()
		}
	}
	for _, e := range before {
		if seen[e.Position] != 1 {
			tr.Errorf("event at %d was seen %d times, want once", e.Position, seen[e.Position])
		}
	}
}

// RunCrowdedMoment tests a backend with more events of one moment than a page looks at. It is
// not among the promises of Run, for it takes as long as many of them.
func RunCrowdedMoment(t *testing.T, open func(t *testing.T) store.Store) {
	try(t, open(t), checkCrowdedMoment)
}

// checkCrowdedMoment reads a log of which a moment has more events than one page looks at.
func checkCrowdedMoment(tr *trial) {
	const many, together = 23_000, 1000
	makes := newMaker(7)
	for range many / together {
		var messages []*posthaste.Message
		for range together {
			messages = append(messages, makes.message(tr.now))
		}
		tr.ok(accept(tr.Context(), tr.store, tr.now, messages...))
	}
	for _, oldestFirst := range []bool{true, false} {
		seen := 0
		for query, more := (store.EventQuery{High: posthaste.MaxPosition, OldestFirst: oldestFirst, Limit: 1000, Bare: true}), true; more; {
			page, err := store.ReadEvents(tr.Context(), tr.store, ann, query)
			if err != nil {
				tr.Fatal(err)
			}
			if next := nextQuery(query, page); page.More && (next.Low < query.Low || next.High > query.High || next.High-next.Low >= query.High-query.Low) {
				tr.Fatalf("behind %d events a page of %d, oldest first %t, says to go on from %d to %d, it was asked for %d to %d",
					seen, len(page.Entries), oldestFirst, next.Low, next.High, query.Low, query.High)
			}
			seen += len(page.Entries)
			query, more = nextQuery(query, page), page.More
		}
		if seen != many {
			tr.Errorf("pages had %d events, oldest first %t, want %d", seen, oldestFirst, many)
		}
	}
}

// checkFollowing reads the log, oldest first and always from behind the last
// event seen, while several writers add to it.
func checkFollowing(tr *trial) {
	const writers, each = 8, 25
	var writing sync.WaitGroup
	for n := range writers {
		makes := newMaker(uint64(100 + n))
		writing.Go(func() {
			for range each {
				if err := accept(tr.Context(), tr.store, tr.now, makes.message(tr.now)); err != nil {
					tr.Error(err)
				}
			}
		})
	}
	stop := make(chan struct{})
	followed := make(chan []posthaste.Position, 1)
	go func() { followed <- follow(tr.Context(), tr.store, stop) }()
	writing.Wait()
	close(stop)
	seen := <-followed
	if len(seen) != writers*each {
		tr.Errorf("a reader who followed saw %d events, want %d", len(seen), writers*each)
	}
	if !slices.IsSorted(seen) || len(slices.Compact(seen)) != len(seen) {
		tr.Error("a reader who followed saw events out of order or twice")
	}
}

// follow returns the positions of all events of ann, read as they are written
// until stop is closed, and then to the end.
func follow(ctx context.Context, s store.Log, stop <-chan struct{}) (seen []posthaste.Position) {
	query := store.EventQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: 10}
	for last := false; ; {
		page, err := store.ReadEvents(ctx, s, ann, query)
		if err != nil {
			return nil
		}
		for _, e := range page.Entries {
			seen = append(seen, e.Position)
			query.Low = e.Position + 1
		}
		switch {
		case page.More:
			query.Low = page.Next
		case last:
			return seen
		default:
			select {
			case <-stop:
				last = true
			default:
			}
		}
	}
}

var positionPromises = []promise{
	{"an event is logged at the time it is told", func(tr *trial) {
		m := tr.accept()
		tr.wait(time.Hour)
		claim := tr.claimOne(m)
		tr.wait(time.Hour)
		tr.settle(store.Delivered(claim))
		want := []time.Time{m.CreatedAt, m.CreatedAt.Add(time.Hour), m.CreatedAt.Add(2 * time.Hour)}
		tr.same("times", want, timesOf(tr.logOf(m)))
	}},
	{"positions increase while the clock stands still", func(tr *trial) {
		for range 10 {
			tr.settle(store.Delivered(tr.claimOne(tr.accept())))
		}
		tr.wantIncreasing(30)
	}},
	{"positions increase while the clock steps back", func(tr *trial) {
		for range 10 {
			m := tr.accept()
			claim := tr.claimOne(m)
			tr.wait(-time.Hour)
			tr.settle(store.Delivered(claim))
			tr.wait(time.Minute)
		}
		tr.wantIncreasing(30)
	}},
	{"positions increase over days", func(tr *trial) {
		for range 10 {
			tr.settle(store.Delivered(tr.claimOne(tr.accept())))
			tr.wait(17 * time.Hour)
		}
		tr.wantIncreasing(30)
	}},
}

func timesOf(entries []store.Entry) []time.Time {
	times := make([]time.Time, len(entries))
	for i, e := range entries {
		times[i] = e.Position.Time()
	}
	return times
}

// wantIncreasing requires a log of so many events whose positions increase in
// the order in which their changes were made: message by message.
func (tr *trial) wantIncreasing(n int) {
	tr.Helper()
	log := tr.wholeLog(ann)
	if len(log) != n {
		tr.Errorf("%d events, want %d", len(log), n)
	}
	order := map[posthaste.MessageID]int{}
	for i, id := range tr.makes.ids[ann] {
		order[id] = i
	}
	if !slices.IsSortedFunc(log, func(a, b store.Entry) int { return cmp.Compare(order[a.MessageID], order[b.MessageID]) }) {
		tr.Errorf("events of later messages are logged before those of earlier ones")
	}
	if err := checkPositions(log); err != nil {
		tr.Error(err)
	}
}
