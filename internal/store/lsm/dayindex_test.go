package lsm_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

const wholeDay = 24 * time.Hour

// scattered accepts messages of Ann's at noon of some days after the first, in that order. What
// they have is for change to say.
func scattered(t testing.TB, s *ruled, days []int, change func(day int, m *posthaste.Message)) {
	t.Helper()
	for _, d := range days {
		now := noon.Add(time.Duration(d) * wholeDay)
		m := anyMessage(now)
		change(d, m)
		if _, err := s.Accept(t.Context(), now, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
			t.Fatal(err)
		}
	}
}

// everyDay returns the numbers of days.
func everyDay(days int) (all []int) {
	for d := range days {
		all = append(all, d)
	}
	return all
}

// eventsOf reads pages of at most some entries until none follows.
func eventsOf(t testing.TB, s *ruled, user string, filter posthaste.Filter, oldestFirst bool, limit int) (all []store.Entry, pages int) {
	t.Helper()
	query := store.EventQuery{Filter: filter, High: posthaste.MaxPosition, OldestFirst: oldestFirst, Limit: limit}
	for {
		page, err := store.ReadEvents(t.Context(), s, user, query)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		if all = append(all, page.Entries...); !page.More {
			return all, pages
		}
		if query.High = page.Next; oldestFirst {
			query.Low, query.High = page.Next, posthaste.MaxPosition
		}
	}
}

// TestPagesPassOverDays asks a log of two hundred days for what few of them have: what is read
// grows by the weeks in between, not by the days.
func TestPagesPassOverDays(t *testing.T) {
	const (
		days  = 200
		weeks = days/7 + 2
	)
	s := open(t, vfs.NewMem())
	var oldest posthaste.MessageID
	scattered(t, s, everyDay(days), func(d int, m *posthaste.Message) {
		switch {
		case d == 0:
			oldest = m.ID
		case d == 50, d == 51, d == 150:
			m.Labels = []string{"rare"}
		case d%2 == 0:
			m.Queue = "even"
		default:
			m.Queue = "odd"
		}
	})
	for name, test := range map[string]struct {
		filter        posthaste.Filter
		entries, most int
	}{
		"nothing":                {posthaste.Filter{Labels: []string{"none"}}, 0, weeks + 1},
		"three days":             {posthaste.Filter{Labels: []string{"rare"}}, 3, weeks + 3*2 + 1},
		"three days and a state": {posthaste.Filter{Labels: []string{"rare"}, States: []posthaste.State{posthaste.StateCreated}}, 3, 2*weeks + 3*4 + 2},
		"one of two values":      {posthaste.Filter{Labels: []string{"rare", "none"}}, 3, 2*weeks + 3*3 + 2},
		"the oldest message":     {posthaste.Filter{MessageIDs: []posthaste.MessageID{oldest}}, 1, weeks + 3},
		"what shares no day":     {posthaste.Filter{Queues: []string{"even"}, Labels: []string{"rare"}}, 0, 2*weeks + 2},
	} {
		for _, oldestFirst := range []bool{false, true} {
			before := readSoFar(t, s)
			all, _ := eventsOf(t, s, "ann", test.filter, oldestFirst, 100)
			if read := readSoFar(t, s).IndexBlocks - before.IndexBlocks; len(all) != test.entries || read > int64(test.most) {
				t.Errorf("%s, oldest first %t: %d entries after %d blocks of the index, want %d after at most %d",
					name, oldestFirst, len(all), read, test.entries, test.most)
			}
		}
	}
}

// TestPagesAreThoseOfTheDefinition compares pages of random histories over many days, in which
// messages have events days after they were made, with what the filter itself says.
func TestPagesAreThoseOfTheDefinition(t *testing.T) {
	labels := []string{"a", "b", "c"}
	rapid.Check(t, func(rt *rapid.T) {
		s, err := openRuled("data", lsm.Options{FS: vfs.NewMem()})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		var ids []posthaste.MessageID
		days := rapid.SliceOfN(rapid.IntRange(0, 40), 1, 12).Draw(rt, "days")
		slices.Sort(days)
		scattered(t, s, days, func(_ int, m *posthaste.Message) {
			m.Labels = rapid.SliceOfNDistinct(rapid.SampledFrom(labels), 0, 2, rapid.ID).Draw(rt, "labels")
			m.NotBefore = m.CreatedAt.Add(rapid.SampledFrom([]time.Duration{0, wholeDay, 9 * wholeDay, 90 * wholeDay}).Draw(rt, "delay"))
			ids = append(ids, m.ID)
		})
		for _, d := range []int{45, 60} {
			settleAll(t, s, noon.Add(time.Duration(d)*wholeDay))
		}
		filter := posthaste.Filter{
			Labels:     rapid.SliceOfNDistinct(rapid.SampledFrom(labels), 0, 2, rapid.ID).Draw(rt, "wanted labels"),
			MessageIDs: rapid.SliceOfN(rapid.SampledFrom(ids), 0, 3).Draw(rt, "wanted messages"),
			States: rapid.SliceOfN(rapid.SampledFrom([]posthaste.State{
				posthaste.StateCreated, posthaste.StateActive, posthaste.StateDelivered,
			}), 0, 1).Draw(rt, "wanted states"),
		}
		oldestFirst := rapid.Bool().Draw(rt, "oldest first")
		want := slices.DeleteFunc(dayByDay(t, s, 200), func(e store.Entry) bool { return !filter.MatchesEvent(&e.Event, e.Message) })
		if !oldestFirst {
			slices.Reverse(want)
		}
		got, _ := eventsOf(t, s, "ann", filter, oldestFirst, rapid.IntRange(1, 5).Draw(rt, "limit"))
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			rt.Errorf("%+v, oldest first %t (-want +got):\n%s", filter, oldestFirst, diff)
		}
	})
}

// dayByDay reads a number of days of the log, each by its own query, which do not use the day index.
func dayByDay(t testing.TB, s *ruled, days int) (all []store.Entry) {
	t.Helper()
	for d := range days {
		begins := noon.Truncate(wholeDay).Add(time.Duration(d) * wholeDay)
		page, err := store.ReadEvents(t.Context(), s, "ann", store.EventQuery{
			Low: posthaste.FirstPosition(begins), High: posthaste.FirstPosition(begins.Add(wholeDay)) - 1,
			OldestFirst: true, Limit: 1000,
		})
		if err != nil || page.More {
			t.Fatalf("a page of day %d, more %t: %v", d, page.More, err)
		}
		all = append(all, page.Entries...)
	}
	return all
}

// TestManyValuesOverManyDays asks by more values than a page may look for in all weeks: it ends
// before them, and its cursor leads on.
func TestManyValuesOverManyDays(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	const days, values, most = 300, 5000, 200_000
	s := open(t, vfs.NewMem())
	wanted := posthaste.Filter{Labels: []string{"first", "last"}}
	for n := range values {
		wanted.Labels = append(wanted.Labels, fmt.Sprint("none-", n))
	}
	scattered(t, s, everyDay(days), func(d int, m *posthaste.Message) {
		switch d {
		case 0:
			m.Labels = []string{"first"}
		case days - 1:
			m.Labels = []string{"last"}
		}
	})
	for _, oldestFirst := range []bool{false, true} {
		before := readSoFar(t, s)
		all, pages := eventsOf(t, s, "ann", wanted, oldestFirst, 10)
		read := readSoFar(t, s).IndexBlocks - before.IndexBlocks
		if len(all) != 2 || pages < 2 || read > int64(pages*(most+values+2)) {
			t.Errorf("oldest first %t: %d entries on %d pages, %d blocks of the index; want 2 on several, of at most %d each",
				oldestFirst, len(all), pages, read, most)
		}
	}
}

// TestFewEventsBesideManyOfOthers reads the whole log of a user who has two events in a year.
func TestFewEventsBesideManyOfOthers(t *testing.T) {
	s := open(t, vfs.NewMem())
	scattered(t, s, everyDay(300), func(d int, m *posthaste.Message) {
		if d == 3 || d == 270 {
			m.User = "bob"
		}
	})
	for _, oldestFirst := range []bool{false, true} {
		if all, _ := eventsOf(t, s, "bob", posthaste.Filter{}, oldestFirst, 100); len(all) != 2 {
			t.Errorf("oldest first %t: %d entries, want 2", oldestFirst, len(all))
		}
	}
}

// TestWeeksAreDropped drops days, of whose weeks no more is left than has events, and what is
// added to a week that was dropped is found.
func TestWeeksAreDropped(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	for _, step := range []struct {
		name        string
		accept      []int
		trim        int // the day before which all is dropped
		wantEntries int
		wantWeeks   int
	}{
		{"days of three weeks", []int{0, 1, 8, 15}, 0, 4, 3},
		{"without a part of the first week", nil, 1, 3, 3},
		{"without all but the last", nil, 15, 1, 1},
		{"without all", nil, 16, 0, 0},
		{"more in the week that was dropped", []int{16, 17}, 0, 2, 1},
		{"without all again", nil, 300, 0, 0},
		{"more after the clock was set back", []int{16, 17}, 0, 2, 1},
	} {
		scattered(t, s, step.accept, func(_ int, m *posthaste.Message) { m.Labels = []string{"x"} })
		if _, err := s.Trim(t.Context(), "ann", store.Horizon{Log: noon.Add(time.Duration(step.trim) * wholeDay)}); err != nil {
			t.Fatal(err)
		}
		if all, _ := eventsOf(t, s, "ann", posthaste.Filter{Labels: []string{"x"}}, true, 100); len(all) != step.wantEntries {
			t.Errorf("%s: %d entries, want %d", step.name, len(all), step.wantEntries)
		}
		if n := weeksIn(t, fs); n != step.wantWeeks {
			t.Errorf("%s: %d weeks in the day index, want %d", step.name, n, step.wantWeeks)
		}
	}
}

// weeksIn returns how many weeks are in the day index of a store that is open.
func weeksIn(t *testing.T, fs vfs.FS) int {
	t.Helper()
	weeks := map[string]bool{}
	change(t, imageOf(t, fs).fs(), func(db *pebble.DB) error {
		iter, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{'t'}, UpperBound: []byte{'u'}})
		if err != nil {
			return err
		}
		for valid := iter.First(); valid; valid = iter.Next() {
			weeks[string(iter.Key()[:3])] = true
		}
		return errors.Join(iter.Error(), iter.Close())
	})
	return len(weeks)
}
