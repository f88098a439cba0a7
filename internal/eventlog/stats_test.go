package eventlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"posthaste"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
	"posthaste/internal/store/storetest/model"
)

// Counts makes a fakeStore count the entries that it has.
func (f fakeStore) Counts(_ context.Context, user string, from, until time.Time, visit func(*store.Count)) error {
	page, err := f(user, everything)
	for _, c := range model.Count(page.Entries, store.MaxSeries) {
		if !c.Hour.Before(from) && c.Hour.Before(until) {
			visit(&c)
		}
	}
	return err
}

var statsStart = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// statsEntries returns entries of four days, oldest first.
func statsEntries(rng *rand.Rand, n int) (entries []store.Entry) {
	var at posthaste.Position
	for i := range n {
		m := &posthaste.Message{
			URL:   fmt.Sprintf("https://Host%d.example%s/path/%d?id=%d", rng.IntN(3), []string{"", ":8443"}[rng.IntN(2)], rng.IntN(3), i),
			Queue: []string{"", "q1", "q2"}[rng.IntN(3)],
		}
		for range rng.IntN(3) {
			m.Labels = append(m.Labels, fmt.Sprintf("label-%d", rng.IntN(3)))
		}
		e := posthaste.Event{State: posthaste.States[rng.IntN(len(posthaste.States))]}
		at = at.Next(statsStart.Add(time.Duration(i)*96*time.Hour/time.Duration(n)), 0)
		e.Position = at
		if e.State.OfAttempt() {
			e.Attempt = posthaste.Attempt{
				Status: []int{0, 200, 204, 301, 404, 500, 502}[rng.IntN(7)],
				Took:   time.Duration(1+rng.ExpFloat64()*300) * time.Millisecond,
			}
		}
		if e.State == posthaste.StateDelivered {
			e.Attempt.Status = max(e.Attempt.Status, 200)
		}
		entries = append(entries, store.NewEntry(e, m))
	}
	return entries
}

// Stats agrees with a count of the entries that the same filter selects.
func TestStats(t *testing.T) {
	entries := statsEntries(rand.New(rand.NewPCG(1, 1)), 4000)
	log := eventlog.New(eventlog.Options{Store: storeOf(entries)})
	for name, filter := range map[string]posthaste.Filter{
		"everything":     {},
		"a host":         {Hosts: []string{"HOST1.example"}},
		"a port":         {Hosts: []string{"host1.example:8443"}},
		"a path":         {Paths: []string{"/path/1", "/path/2"}},
		"a queue":        {Queues: []string{"q2"}},
		"no queue":       {Queues: []string{""}},
		"labels":         {Labels: []string{"label-1", "label-2"}},
		"states":         {States: []posthaste.State{posthaste.StateError, posthaste.StateDelivered}},
		"several fields": {Hosts: []string{"host0.example"}, Queues: []string{"q1"}, Labels: []string{"label-0"}, States: []posthaste.State{posthaste.StateError}},
		"nothing":        {Hosts: []string{"elsewhere.example"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, query := range []eventlog.StatsQuery{
				{From: statsStart, Until: statsStart.Add(96 * time.Hour), Bucket: 24 * time.Hour, Filter: filter, Most: 100},
				{From: statsStart.Add(30 * time.Hour), Until: statsStart.Add(54 * time.Hour), Bucket: time.Hour, Filter: filter, Most: 3},
			} {
				got, err := log.Stats(t.Context(), "ann", &query)
				if err != nil {
					t.Fatal(err)
				}
				checkStats(t, entries, &query, got)
			}
		})
	}
}

// checkStats counts by itself.
func checkStats(t *testing.T, entries []store.Entry, query *eventlog.StatsQuery, got *eventlog.Stats) {
	t.Helper()
	selected := slices.DeleteFunc(slices.Clone(entries), func(e store.Entry) bool {
		at := e.Position.Time()
		return at.Before(query.From) || !at.Before(query.Until) || !query.Filter.MatchesEvent(&e.Event, e.Message)
	})
	checkSummary(t, "total", selected, &got.Total)
	if want := int(query.Until.Sub(query.From) / query.Bucket); len(got.Buckets) != want {
		t.Fatalf("%d buckets, want %d", len(got.Buckets), want)
	}
	for i := range got.Buckets {
		from := query.From.Add(time.Duration(i) * query.Bucket)
		checkSummary(t, from.String(), entriesOf(selected, func(e *store.Entry) bool {
			return !e.Position.Time().Before(from) && e.Position.Time().Before(from.Add(query.Bucket))
		}), &got.Buckets[i])
	}
	checkPlaces(t, selected, got.Hosts, query.Most, func(host, _ string) eventlog.Place { return eventlog.Place{Host: host} })
	checkPlaces(t, selected, got.Paths, query.Most, func(host, path string) eventlog.Place { return eventlog.Place{Host: host, Path: path} })
}

func entriesOf(entries []store.Entry, of func(*store.Entry) bool) (selected []store.Entry) {
	for _, e := range entries {
		if of(&e) {
			selected = append(selected, e)
		}
	}
	return selected
}

func checkPlaces(t *testing.T, entries []store.Entry, got []eventlog.Destination, most int, placeOf func(host, path string) eventlog.Place) {
	t.Helper()
	failed := map[eventlog.Place]int64{}
	for _, e := range entries {
		at := placeOf(posthaste.HostAndPath(e.Message.URL))
		if failed[at] += 0; e.State == posthaste.StateError {
			failed[at]++
		}
	}
	if want := min(most, len(failed)); len(got) != want {
		t.Errorf("%d destinations, want %d", len(got), want)
	}
	before := int64(len(entries))
	for i := range got {
		d := &got[i]
		if n := failed[d.Place]; n > before {
			t.Errorf("%v with %d failed attempts comes after one with %d", d.Place, n, before)
		} else {
			before = n
		}
		delete(failed, d.Place)
		checkSummary(t, fmt.Sprint(d.Place), entriesOf(entries, func(e *store.Entry) bool {
			return placeOf(posthaste.HostAndPath(e.Message.URL)) == d.Place
		}), &d.Summary)
	}
	for at, n := range failed {
		if n > before {
			t.Errorf("%v with %d failed attempts is left out, after one with %d", at, n, before)
		}
	}
}

func checkSummary(t *testing.T, what string, entries []store.Entry, got *eventlog.Summary) {
	t.Helper()
	states, statuses := map[posthaste.State]int64{}, [10]int64{}
	var took []time.Duration
	for _, e := range entries {
		states[e.State]++
		if e.State == posthaste.StateError || e.State == posthaste.StateDelivered {
			statuses[e.Attempt.Status/100]++
			took = append(took, e.Attempt.Took)
		}
	}
	if diff := cmp.Diff(states, got.States, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: states (-want +got):\n%s", what, diff)
	}
	if statuses != got.Statuses || got.Timed() != int64(len(took)) {
		t.Errorf("%s: statuses %v, %d timed, want %v, %d", what, got.Statuses, got.Timed(), statuses, len(took))
	}
	slices.Sort(took)
	for _, share := range []float64{0.5, 0.9, 0.99} {
		got, want := got.Latency(share), time.Duration(0)
		if n := len(took); n > 0 {
			want = took[max(0, ceil(share*float64(n))-1)]
		}
		if off := (got - want).Abs(); float64(off) > 0.0625*float64(want) || want < 16*time.Millisecond && off > 0 {
			t.Errorf("%s: %g of %d attempts took %v, want %v", what, share, len(took), got, want)
		}
	}
}

func ceil(x float64) int {
	n := int(x)
	if float64(n) < x {
		n++
	}
	return n
}

// What the store has not told apart is listed as the rest, of which no filter selects anything.
func TestStatsOfTheRest(t *testing.T) {
	var entries []store.Entry
	for i := range 2*store.MaxSeries + 100 {
		m := &posthaste.Message{URL: fmt.Sprintf("https://host%d.example/path", i), Queue: "q"}
		entries = append(entries, store.NewEntry(posthaste.Event{State: posthaste.StateCreated, Position: posthaste.FirstPosition(statsStart) + posthaste.Position(i)}, m))
	}
	log := eventlog.New(eventlog.Options{Store: storeOf(entries)})
	query := eventlog.StatsQuery{From: statsStart, Until: statsStart.Add(time.Hour), Bucket: time.Hour, Most: 1}
	of := func(filter posthaste.Filter) string {
		query.Filter = filter
		s, err := log.Stats(t.Context(), "ann", &query)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		fmt.Fprint(&text, s.Total.States[posthaste.StateCreated])
		for _, d := range append(s.Hosts, s.Paths...) {
			fmt.Fprintf(&text, ", %+v %d", d.Place, d.States[posthaste.StateCreated])
		}
		return text.String()
	}
	for want, filter := range map[string]posthaste.Filter{
		"2100, {Host: Path: Rest:true} 100, {Host: Path: Rest:true} 100":                           {},
		"1, {Host:host5.example Path: Rest:false} 1, {Host:host5.example Path:/path Rest:false} 1": {Hosts: []string{"host5.example"}},
		"1, {Host:host1005.example Path: Rest:false} 1, {Host:host1005.example Path: Rest:true} 1": {Hosts: []string{"host1005.example"}},
		"0": {Hosts: []string{"host2005.example"}},
		"1000, {Host:host0.example Path: Rest:false} 1, {Host:host0.example Path:/path Rest:false} 1": {Paths: []string{"/path"}},
		"2000, {Host:host0.example Path: Rest:false} 1, {Host:host0.example Path:/path Rest:false} 1": {Queues: []string{"q"}},
	} {
		if got := of(filter); got != want {
			t.Errorf("%+v selects %s, want %s", filter, got, want)
		}
	}
}
