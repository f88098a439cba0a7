package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/store/postgres"
)

// pagesVariable is how many messages the log of BenchmarkPages is about: 3000 unless it
// is set. An entry is about a third of one.
const pagesVariable = "PAGES_MESSAGES"

// pages are the filters that BenchmarkPages asks for, alone and in pairs, from what most
// events pass to what few do.
var pages = []struct {
	name   string
	filter posthaste.Filter
}{
	{"all", posthaste.Filter{}},
	{"state, most", posthaste.Filter{States: []posthaste.State{posthaste.StateDelivered}}},
	{"state, some", posthaste.Filter{States: []posthaste.State{posthaste.StateError}}},
	{"url", posthaste.Filter{URLs: []string{"https://host-0.example/hook"}}},
	{"label", posthaste.Filter{Labels: []string{"label-1"}}},
	{"caller", posthaste.Filter{CallerIPs: []string{"10.0.0.7"}}},
	{"rare label", posthaste.Filter{Labels: []string{"rare"}}},
	{"url and state", posthaste.Filter{URLs: []string{"https://host-0.example/hook"}, States: []posthaste.State{posthaste.StateError}}},
	{"label and caller", posthaste.Filter{Labels: []string{"label-1"}, CallerIPs: []string{"10.0.0.7"}}},
	{"rare label and state", posthaste.Filter{Labels: []string{"rare"}, States: []posthaste.State{posthaste.StateDelivered}}},
	{"rare label and url", posthaste.Filter{Labels: []string{"rare"}, URLs: []string{"https://host-0.example/hook"}}},
	{"a thousand labels and callers", posthaste.Filter{Labels: numbered("wide-%d"), CallerIPs: numbered("10.0.0.%d")}},
}

// numbered returns a thousand values.
func numbered(format string) []string {
	values := make([]string, 1000)
	for i := range values {
		values[i] = fmt.Sprintf(format, i)
	}
	return values
}

// BenchmarkPages reads pages of 1 000 entries of one log that both backends keep, by
// filters alone and in pairs, and reports how many times as long PostgreSQL takes, and as that takes four
// partitions. What
// counts is the fastest answer: two programs that talk feel what else the machine does
// more than one that is alone.
func BenchmarkPages(b *testing.B) {
	messages := 3000
	if text := os.Getenv(pagesVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatalf("%s=%s: a number is accepted", pagesVariable, text)
		}
		messages = n
	}
	embedded, many := twoStores(b)
	fill(b, ledger.New(embedded), messages)
	duplicate(b, embedded, many)
	url, err := cluster.Create()
	if err != nil {
		b.Fatal(err)
	}
	divided := openWith(b, url, postgres.Options{Partitions: 4}).Ledger
	duplicate(b, embedded, divided)
	for _, page := range pages {
		query := store.EventQuery{Filter: page.filter, High: posthaste.MaxPosition, Limit: 1000}
		compare := func(b *testing.B) { comparePages(b, query, ledger.New(embedded), ledger.New(many), divided) }
		b.Run(page.name, compare)
		query.OldestFirst = true
		b.Run(page.name+", oldest first", compare)
	}
}

// comparePages reads the same page of the embedded store, and of databases with one partition and four, in
// turn.
func comparePages(b *testing.B, query store.EventQuery, stores ...store.Store) {
	var took [3][]time.Duration
	for range b.N {
		for i, s := range stores {
			began := time.Now()
			if _, err := store.ReadEvents(b.Context(), s, ann, query); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	one, other, divided := slices.Min(took[0]), slices.Min(took[1]), slices.Min(took[2])
	b.ReportMetric(one.Seconds()*1000, "embedded-ms")
	b.ReportMetric(other.Seconds()*1000, "postgres-ms")
	b.ReportMetric(other.Seconds()/one.Seconds(), "ratio")
	b.ReportMetric(divided.Seconds()/other.Seconds(), "4-partitions/1")
}

// TestLargePages reads pages that are larger than what is looked for one by one, of events
// that lie close together and of some that lie far apart, and compares what the backends
// answer.
func TestLargePages(t *testing.T) {
	for _, log := range []struct {
		name string
		fill func(testing.TB, store.Store)
	}{
		{"close together", func(tb testing.TB, s store.Store) { fill(tb, s, 1000) }},
		{"far apart", func(tb testing.TB, s store.Store) { fillSparsely(tb, s, 1500) }},
	} {
		t.Run(log.name, func(t *testing.T) {
			t.Parallel()
			embedded, many := twoStores(t)
			log.fill(t, ledger.New(embedded))
			duplicate(t, embedded, many)
			for _, page := range pages {
				for _, oldestFirst := range []bool{false, true} {
					query := store.EventQuery{Filter: page.filter, High: posthaste.MaxPosition, Limit: 800, OldestFirst: oldestFirst}
					expected, err := store.ReadEvents(t.Context(), embedded, ann, query)
					if err != nil {
						t.Fatal(err)
					}
					got, err := store.ReadEvents(t.Context(), many, ann, query)
					if err != nil {
						t.Fatal(err)
					}
					if !reflect.DeepEqual(expected, got) {
						t.Errorf("%s, oldest first %t: %s", page.name, oldestFirst, cmp.Diff(expected, got))
					}
				}
			}
		})
	}
}

// twoStores opens an empty store of each backend.
func twoStores(tb testing.TB) (embedded *lsm.Store, many *postgres.Store) {
	tb.Helper()
	url, err := cluster.Create()
	if err != nil {
		tb.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	if many, err = postgres.Open(tb.Context(), url, postgres.Options{Logger: quiet, Partitions: 1}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = many.Close() })
	if embedded, err = lsm.Open(tb.TempDir(), lsm.Options{Logger: quiet}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = embedded.Close() })
	return embedded, many
}

// duplicate copies everything from one store into another, as posthaste copy does.
func duplicate(tb testing.TB, from, into store.Backend) {
	tb.Helper()
	const atOnce = 1000
	var items []store.Item
	flush := func() error {
		err := into.Import(tb.Context(), items)
		items = items[:0]
		return err
	}
	err := from.Export(tb.Context(), time.Now(), func(item store.Item) error {
		items = append(items, store.Item{Kind: item.Kind, User: item.User, Key: slices.Clone(item.Key), Value: slices.Clone(item.Value)})
		if len(items) < atOnce {
			return nil
		}
		return flush()
	})
	if err := errors.Join(err, flush()); err != nil {
		tb.Fatal(err)
	}
}

// fill lets messages live in a store, a hundred at a time.
func fill(tb testing.TB, s store.Store, messages int) {
	tb.Helper()
	const atOnce = 100
	rng := rand.New(rand.NewPCG(1, 1))
	for at := 0; at < messages; at += atOnce {
		now := start.Add(time.Duration(at) * time.Millisecond)
		submissions := make([]store.Submission, atOnce)
		for i := range submissions {
			submissions[i].Messages = []*posthaste.Message{historic(rng, now, at+i)}
		}
		if _, err := s.Accept(tb.Context(), now, submissions); err != nil {
			tb.Fatal(err)
		}
		claims, _, err := s.Claim(tb.Context(), now, 100*atOnce)
		if err != nil {
			tb.Fatal(err)
		}
		settleHistoric(tb.Context(), tb, s, rng, now, claims)
	}
}

// fillSparsely accepts messages one by one, each so long after the one before that its event
// begins a block. One in ten has the rare label.
func fillSparsely(tb testing.TB, s store.Store, messages int) {
	tb.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	for at := range messages {
		now := start.Add(time.Duration(at) * 5 * time.Second)
		m := historic(rng, now, at)
		if at%10 == 0 {
			m.Labels = []string{"rare"}
		}
		if _, err := s.Accept(tb.Context(), now, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
			tb.Fatal(err)
		}
	}
}

func historic(rng *rand.Rand, now time.Time, number int) *posthaste.Message {
	m := newMessage(now)
	m.URL = fmt.Sprintf("https://host-%d.example/hook", int(rng.ExpFloat64()*20))
	m.CallerIP = fmt.Sprintf("10.0.0.%d", rng.IntN(100))
	m.Body = make([]byte, 512)
	if number%1000 == 500 {
		m.Labels = []string{"rare"}
	} else {
		m.Labels = []string{fmt.Sprintf("label-%d", int(rng.ExpFloat64()*20)), fmt.Sprintf("wide-%d", number%2000)}
	}
	return m
}

// settleHistoric lets one message in ten fail once.
func settleHistoric(ctx context.Context, tb testing.TB, s store.Store, rng *rand.Rand, now time.Time, claims []store.Claim) {
	var settling sync.WaitGroup
	for _, claim := range claims {
		settlement := store.Delivered(claim)
		if claim.Retried == 0 && rng.IntN(10) == 0 {
			settlement = store.RetryAt(claim, now, posthaste.Outcome{Error: "503 Service Unavailable", Response: &posthaste.Response{Status: 503}})
		}
		settling.Go(func() {
			if _, err := s.Settle(ctx, now, settlement); err != nil {
				tb.Error(err)
			}
		})
	}
	settling.Wait()
}
