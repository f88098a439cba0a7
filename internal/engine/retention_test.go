package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

const (
	day  = 24 * time.Hour
	kept = 3 * day

	trimEvery    = time.Hour // while the engine runs, and at its start
	trafficEvery = 22 * time.Minute
)

// TestRetention has thirty days of traffic on a server that keeps three, or ten with the
// race detector. All the time
// the log, the messages and the DLQ are those of a naive evaluation of everything that
// ever happened, cut off at the edge; cursors lead on correctly after what they point
// at was dropped; and the disk holds no more than when the window was full for the
// first time.
func TestRetention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newArchive(t)
		days := 30
		if testing.Short() {
			days = 5
		}
		for a.today() < days {
			a.live(func() {
				for range 3 {
					a.traffic()
					a.pass(trafficEvery)
				}
				a.note()
				a.goOn()
				a.compare()
				a.measure()
			})
			time.Sleep(day + time.Hour - time.Since(a.opened)) // each look is at another time of day
		}
		if a.overran == 0 {
			t.Error("no cursor was overrun by the edge")
		}
		t.Logf("%d messages, %d entries, %d cursors to what was dropped, %d bytes on disk", a.sent, len(a.entries), a.overran, a.steady)
	})
}

// A flow-control key goes a day after it was of use, also where all else is kept for ever.
func TestIdleFlowKeysGo(t *testing.T) {
	sequential(t)
	inWorld(t, answers(ok), engine.Options{}, func(w *world) {
		w.publish(engine.Publication{Settings: posthaste.Settings{FlowControl: posthaste.FlowControl{Key: "k"}}})
		w.pass(day - time.Minute)
		if _, err := w.FlowKey(w.t.Context(), user, "k"); err != nil {
			t.Errorf("before a day has passed: %v", err)
		}
		w.pass(trimEvery + time.Minute)
		if _, err := w.FlowKey(w.t.Context(), user, "k"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("after a day: %v, want ErrNotFound", err)
		}
	})
}

// A user with settings of its own is kept for as long as they say, and the others for as
// long as everybody is.
func TestRetentionOfOneUser(t *testing.T) {
	options := engine.Options{
		Retention:     engine.Retention{DeadLetters: 90 * day},
		UserRetention: map[string]engine.Retention{user: {DeadLetters: time.Minute}},
	}
	inWorld(t, answers(refusing), options, func(w *world) {
		w.publish(engine.Publication{})
		if _, err := w.Publish(w.t.Context(), "bob", engine.Publication{Destination: urlFails}); err != nil {
			t.Fatal(err)
		}
		w.pass(trimEvery + time.Minute)
		page, err := w.DeadLetters(w.t.Context(), "bob", store.DeadLetterQuery{High: posthaste.MaxPosition, Limit: 10})
		if own := len(w.deadLetters()); own != 0 || err != nil || len(page.DeadLetters) != 1 {
			t.Errorf("%d dead letters of the user and %d of another are left, %v; want 0 and 1", own, len(page.DeadLetters), err)
		}
	})
}

// archive is a world that remembers what retention makes the store forget.
type archive struct {
	*world
	opened time.Time // of the store, the last time
	disk   *ledger.Ledger
	fs     vfs.FS
	random *rand.ChaCha8
	sent   int

	entries []store.Entry      // the whole log
	steady  int64              // bytes on disk, when the window was full for the first time
	cursors []store.EventQuery // of the pages that readers would ask for next
	overran int                // cursors to entries that were dropped meanwhile
}

func newArchive(t *testing.T) *archive {
	return &archive{
		world:  &world{t: t, start: time.Now()},
		fs:     vfs.NewMem(),
		random: rand.NewChaCha8([32]byte{3, 30}),
	}
}

// live runs a server for as long as what happens takes. It is off in between, which
// costs nothing: the embedded store ticks ten times a second, also on a clock that
// leaps.
func (a *archive) live(happens func()) {
	a.t.Helper()
	s, err := ledger.Over(lsm.Open("data", lsm.Options{FS: a.fs}))
	if err != nil {
		a.t.Fatal(err)
	}
	a.opened, a.disk, a.store = time.Now(), s, s
	a.Engine = engine.New(engine.Options{
		Store:      s,
		Dispatcher: destinations{fateByURL},
		Logger:     slog.New(slog.DiscardHandler),
		Retention:  engine.Retention{Log: kept, DeadLetters: kept, Runs: kept},
	})
	a.Start()
	happens()
	a.Stop(a.t.Context())
	if err := s.Close(); err != nil {
		a.t.Error(err)
	}
}

const (
	urlOK    = "http://a.example/ok"
	urlLate  = "http://a.example/late"
	urlFails = "http://b.example/fails"
)

func fateByURL(_ context.Context, m *posthaste.Message, retried int) posthaste.Outcome {
	switch {
	case m.URL == urlFails:
		return refusing
	case m.URL == urlLate && retried == 0:
		return broken
	}
	return ok
}

// today is the number of days since the start.
func (a *archive) today() int { return int(time.Since(a.start) / day) }

// traffic publishes messages that are delivered, that are tried again, that fail, and
// that wait for days: for fewer than are kept, and for more.
func (a *archive) traffic() {
	for range 4 {
		body := make([]byte, 16<<10)
		_, _ = a.random.Read(body) // never fails, by its contract
		p := engine.Publication{Body: body, Settings: posthaste.Settings{Labels: []string{fmt.Sprint("l", a.sent%3)}}}
		p.Destination = []string{urlOK, urlLate, urlFails}[a.sent%3]
		switch a.sent % 12 {
		case 5:
			p.Queue = "q"
		case 6:
			p.Delay = 2 * day
		case 7:
			p.Delay = 5 * day
		}
		a.publish(p)
		a.sent++
	}
}

// note takes what is new in the log into the archive.
func (a *archive) note() {
	a.t.Helper()
	var low posthaste.Position
	if len(a.entries) > 0 {
		low = a.entries[len(a.entries)-1].Position + 1
	}
	a.entries = append(a.entries, a.read(store.EventQuery{Low: low, High: posthaste.MaxPosition, OldestFirst: true}, 100)...)
}

// read reads a query to its end, by pages of a size.
func (a *archive) read(query store.EventQuery, size int) (entries []store.Entry) {
	a.t.Helper()
	for {
		page := a.page(query, size)
		entries = append(entries, page.Entries...)
		if !page.More {
			return entries
		}
		query = behind(query, page)
	}
}

func (a *archive) page(query store.EventQuery, size int) store.EventPage {
	a.t.Helper()
	query.Limit = size
	page, err := store.ReadEvents(a.t.Context(), a.store, user, query)
	if err != nil {
		a.t.Fatal(err)
	}
	return page
}

// behind returns the query of what follows a page.
func behind(query store.EventQuery, page store.EventPage) store.EventQuery {
	if query.OldestFirst {
		query.Low = page.Next
	} else {
		query.High = page.Next
	}
	return query
}

// trimmedAt is when the engine last removed something.
func (a *archive) trimmedAt() time.Time {
	return a.opened.Add(time.Since(a.opened).Truncate(trimEvery))
}

// edge is the position from which on the log is kept: that of the day in which the
// window begins.
func (a *archive) edge() posthaste.Position {
	return posthaste.FirstPosition(a.trimmedAt().Add(-kept).UTC().Truncate(day))
}

// expected evaluates a query on what is kept.
func (a *archive) expected(query store.EventQuery) (entries []store.Entry) {
	for _, e := range a.entries {
		if e.Position >= max(a.edge(), query.Low) && e.Position <= query.High && query.Filter.MatchesEvent(&e.Event, e.Message) {
			entries = append(entries, e)
		}
	}
	if !query.OldestFirst {
		slices.Reverse(entries)
	}
	return entries
}

// queries are questions to the log, in both orders, of which some begin or end just
// before or behind the edge.
func (a *archive) queries() (queries []store.EventQuery) {
	filters := []posthaste.Filter{
		{},
		{States: []posthaste.State{posthaste.StateDelivered}},
		{States: []posthaste.State{posthaste.StateError, posthaste.StateFailed}, Hosts: []string{"b.example"}},
		{Labels: []string{"l0", "l2"}, States: []posthaste.State{posthaste.StateCreated}},
		{Queues: []string{"q"}},
		{URLs: []string{urlLate}},
	}
	edge := a.edge()
	soon := edge + posthaste.FirstPosition(time.UnixMilli(trafficEvery.Milliseconds()))
	ranges := []struct{ low, high posthaste.Position }{
		{0, posthaste.MaxPosition},
		{0, edge - 1},
		{edge - 1, soon},
	}
	for _, filter := range filters {
		for _, r := range ranges {
			for _, oldestFirst := range []bool{false, true} {
				queries = append(queries, store.EventQuery{Filter: filter, Low: r.low, High: r.high, OldestFirst: oldestFirst})
			}
		}
	}
	return queries
}

// compare asks everything there is to ask, and keeps the cursors of first pages.
func (a *archive) compare() {
	a.t.Helper()
	for _, query := range a.queries() {
		want := a.expected(query)
		a.same(query, want, a.read(query, 60))
		if page := a.page(query, 5); page.More {
			a.cursors = append(a.cursors, behind(query, page))
		}
	}
	a.compareMessages()
	a.compareDeadLetters()
}

// goOn follows the cursors that were kept, which is after the edge has moved.
func (a *archive) goOn() {
	a.t.Helper()
	for _, query := range a.cursors {
		if query.OldestFirst && query.Low < a.edge() {
			a.overran++
		}
		a.same(query, a.expected(query), a.read(query, 90))
	}
	a.cursors = nil
}

func (a *archive) same(query store.EventQuery, want, got []store.Entry) {
	a.t.Helper()
	equal := func(x, y store.Entry) bool {
		return x.Position == y.Position && x.State == y.State && x.MessageID == y.MessageID &&
			x.Message.URL == y.Message.URL && slices.Equal(x.Message.Body, y.Message.Body)
	}
	if !slices.EqualFunc(want, got, equal) {
		a.t.Errorf("day %d, %+v: %d entries, or other ones than the %d expected", a.today(), query, len(got), len(want))
	}
}

// compareMessages wants the messages that have entries or are alive, and no others.
func (a *archive) compareMessages() {
	a.t.Helper()
	last := map[posthaste.MessageID]posthaste.Event{}
	for _, e := range a.entries {
		last[e.MessageID] = e.Event
	}
	for id, event := range last {
		want := event.Position >= a.edge() || !event.State.Terminal()
		_, err := a.store.Message(a.t.Context(), user, id)
		if found := err == nil; found != want || err != nil && !errors.Is(err, store.ErrNotFound) {
			a.t.Errorf("day %d: message %s, %s since %s, is there: %v, %v, want %v",
				a.today(), id, event.State, event.Position.Time(), found, err, want)
		}
	}
}

// compareDeadLetters wants those that failed within the window.
func (a *archive) compareDeadLetters() {
	a.t.Helper()
	var want []posthaste.MessageID
	for _, e := range a.entries {
		if e.State == posthaste.StateFailed && !e.Position.Time().Before(a.trimmedAt().Add(-kept)) {
			want = append(want, e.MessageID)
		}
	}
	var got []posthaste.MessageID
	for _, d := range a.deadLetters() {
		got = append(got, d.Message.ID)
	}
	if !slices.Equal(want, got) {
		a.t.Errorf("day %d: %d entries of the DLQ, or other ones than the %d expected", a.today(), len(got), len(want))
	}
}

// measure compares what is on disk with what was there when the window was full for
// the first time: the days of the window, and the one in which it begins.
func (a *archive) measure() {
	a.t.Helper()
	if err := a.disk.Backend.(*lsm.Store).Compact(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
	a.pass(time.Second) // for the files that are not needed any more to be deleted
	size := a.size("data")
	if a.today() <= int(kept/day)+2 {
		a.steady = max(a.steady, size)
		return
	}
	if float64(size) > 1.3*float64(a.steady) {
		a.t.Errorf("day %d: %d bytes on disk, of which %d are steady", a.today(), size, a.steady)
	}
}

// size adds up the files of a directory.
func (a *archive) size(dir string) (size int64) {
	a.t.Helper()
	names, err := a.fs.List(dir)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, name := range names {
		info, err := a.fs.Stat(path.Join(dir, name))
		if err != nil {
			a.t.Fatal(err)
		}
		if info.IsDir() {
			size += a.size(path.Join(dir, name))
		} else {
			size += info.Size()
		}
	}
	return size
}
