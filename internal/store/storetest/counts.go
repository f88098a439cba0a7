package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/storetest/model"
)

var countPromises = []promise{
	{"they agree with a random history, whole and in part", func(tr *trial) {
		tr.makeHistory()
		log := tr.wholeLog(ann)
		for n := range 5 {
			from := log[len(log)*n/5].Position.Time().UTC().Truncate(time.Hour)
			tr.wantLogCounted(log, from, from.Add(time.Hour))
			tr.wantLogCounted(log, from, from.Add(26*time.Hour))
			tr.wantLogCounted(log, time.UnixMilli(0), from)
			tr.wantLogCounted(log, from, tr.now.Add(day))
		}
	}},
	{"too many series of an hour are counted without their path, then together", func(tr *trial) {
		const urls = 2*store.MaxSeries + 100
		n := 0
		for range urls/100 + 2 { // the last are like the first
			tr.acceptMany(100, func(m *posthaste.Message) {
				m.URL = fmt.Sprintf("https://host-%d.example/path", n%urls)
				n++
			})
		}
		tr.wantLogCounted(tr.wholeLog(ann), time.UnixMilli(0), tr.now.Add(day))
		var whole, noPath, rest int64
		for _, c := range tr.counts(ann) {
			switch {
			case c.Rest:
				rest += c.N
			case c.NoPath:
				noPath += c.N
			default:
				whole += c.N
			}
		}
		tr.same("events", []int64{store.MaxSeries + 200, store.MaxSeries, 100}, []int64{whole, noPath, rest})
		tr.wait(time.Hour) // which begins with none
		tr.accept()
		tr.wantLogCounted(tr.wholeLog(ann), tr.now.Add(-time.Hour), tr.now.Add(day))
		tr.trimmed = true // to audit so many takes long
	}},
	{"long paths and labels are cut", func(tr *trial) {
		tr.accept(func(m *posthaste.Message) {
			m.URL = "https://host.example:8443/" + strings.Repeat("long", 100) + "?query"
			m.Labels = []string{"a", strings.Repeat("b", 256), strings.Repeat("c", 256), "d"}
		})
		want := store.Series{
			Host: "host.example:8443", Path: "/" + strings.Repeat("long", 31) + "lon", Labels: []string{"a", strings.Repeat("b", 256)},
		}
		if got := tr.counts(ann); len(got) != 1 || !cmp.Equal(got[0].Series, want) {
			tr.Errorf("counts %v, want one of %v", got, want)
		}
	}},
	{"they go with the day of the log", func(tr *trial) {
		tr.end(tr.accept())
		tr.wait(3 * day)
		tr.end(tr.accept())
		tr.wantTrimmed(store.Horizon{Log: tr.now.Add(-day)}, store.Trimmed{Days: 1})
		tr.wantLogCounted(tr.wholeLog(ann), time.UnixMilli(0), tr.now.Add(day))
		tr.wait(10 * day)
		tr.wantTrimmed(store.Horizon{Log: tr.now.Add(-day)}, store.Trimmed{Days: 1})
		if got := tr.counts(ann); len(got) > 0 {
			tr.Errorf("the log is empty, and there is counted %v", got)
		}
	}},
	{"each user has their own", func(tr *trial) {
		tr.accept()
		if got := tr.counts(anna); len(got) > 0 {
			tr.Errorf("another user has %v", got)
		}
	}},
}

// counts returns all counts of a user.
func (tr *trial) counts(user string) []store.Count {
	tr.Helper()
	counts, err := readCounts(tr.Context(), tr.store, user, time.UnixMilli(0), tr.now.Add(1000*day))
	if err != nil {
		tr.Fatal(err)
	}
	return counts
}

// wantLogCounted compares counts of ann with those of her whole log.
func (tr *trial) wantLogCounted(log []store.Entry, from, until time.Time) {
	tr.Helper()
	if err := compareCounts(tr.Context(), tr.store, ann, log, from, until); err != nil {
		tr.Error(err)
	}
}

// auditCounts compares a user's counts with all entries of the log.
func auditCounts(ctx context.Context, s store.Log, user string, entries []store.Entry) error {
	if slices.ContainsFunc(entries, func(e store.Entry) bool { return e.Message == nil }) {
		return nil // which is for others to find
	}
	return compareCounts(ctx, s, user, entries, time.UnixMilli(0), start.AddDate(100, 0, 0))
}

func compareCounts(ctx context.Context, s store.Log, user string, entries []store.Entry, from, until time.Time) error {
	got, err := readCounts(ctx, s, user, from, until)
	if err != nil {
		return fmt.Errorf("counts: %w", err)
	}
	want := slices.DeleteFunc(model.Count(entries, store.MaxSeries), func(c store.Count) bool {
		return c.Hour.Before(from) || !c.Hour.Before(until)
	})
	byName := func(a, b store.Count) int { return strings.Compare(fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b)) }
	slices.SortFunc(got, byName)
	slices.SortFunc(want, byName)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		return fmt.Errorf("counts (-log +counted):\n%s", diff)
	}
	return nil
}

// readCounts returns what Counts visits, the hours of which must ascend.
func readCounts(ctx context.Context, s store.Log, user string, from, until time.Time) (counts []store.Count, err error) {
	err = s.Counts(ctx, user, from, until, func(c *store.Count) { counts = append(counts, *c) })
	if err == nil && !slices.IsSortedFunc(counts, func(a, b store.Count) int { return a.Hour.Compare(b.Hour) }) {
		err = errors.New("the hours do not ascend")
	}
	return counts, err
}
