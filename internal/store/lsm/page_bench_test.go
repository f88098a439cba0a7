package lsm_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
)

// BenchmarkPage reads pages of a log that lies in the block cache, by filters that match
// everything, much and little. Beside times it tells what it needs whoever else uses the
// machine: allocations, and what is read.
func BenchmarkPage(b *testing.B) {
	const messages = 10_000
	s := filledLog(b, messages)
	for _, test := range []struct {
		name   string
		filter posthaste.Filter
	}{
		{"all", posthaste.Filter{}},
		{"state", posthaste.Filter{States: []posthaste.State{posthaste.StateDelivered}}},
		{"failed attempts", posthaste.Filter{States: []posthaste.State{posthaste.StateError}}},
		{"host", posthaste.Filter{Hosts: []string{"host-1.example"}}},
		{"label and state", posthaste.Filter{Labels: []string{"label-1"}, States: []posthaste.State{posthaste.StateDelivered}}},
		{"rare label", posthaste.Filter{Labels: []string{"rare"}}},
		{"rare label and state", posthaste.Filter{Labels: []string{"rare"}, States: []posthaste.State{posthaste.StateDelivered}}},
	} {
		for _, limit := range []int{100, 1000} {
			for _, oldestFirst := range []bool{false, true} {
				name := fmt.Sprintf("%s/%d/oldestFirst=%t", test.name, limit, oldestFirst)
				query := store.EventQuery{Filter: test.filter, High: posthaste.MaxPosition, Limit: limit, OldestFirst: oldestFirst}
				b.Run(name, func(b *testing.B) { readPages(b, s, query) })
			}
		}
	}
}

// BenchmarkYear reads pages that have to look into many of the days of a year, of a hundred
// messages each.
func BenchmarkYear(b *testing.B) {
	const days = 365
	s := filledLogOver(b, 100*days, days*24*time.Hour)
	outermost := func(oldestFirst bool) posthaste.MessageID {
		page, err := store.ReadEvents(b.Context(), s, "ann", store.EventQuery{High: posthaste.MaxPosition, Limit: 1, OldestFirst: oldestFirst})
		if err != nil || len(page.Entries) != 1 {
			b.Fatalf("a page of %d entries, %v", len(page.Entries), err)
		}
		return page.Entries[0].MessageID
	}
	for _, test := range []struct {
		name   string
		filter posthaste.Filter
	}{
		{"the oldest message", posthaste.Filter{MessageIDs: []posthaste.MessageID{outermost(true)}}},
		{"the newest message", posthaste.Filter{MessageIDs: []posthaste.MessageID{outermost(false)}}},
		{"a message of each day", posthaste.Filter{Labels: []string{"rare"}}},
	} {
		b.Run(test.name, func(b *testing.B) {
			readPages(b, s, store.EventQuery{Filter: test.filter, High: posthaste.MaxPosition, Limit: 1000})
		})
	}
}

func readPages(b *testing.B, s *ruled, query store.EventQuery) {
	before := readSoFar(b, s)
	b.ReportAllocs()
	for b.Loop() {
		visited := 0
		_, _, err := s.Events(b.Context(), "ann", query, func(*store.Entry) error { visited++; return nil })
		if err != nil || visited == 0 {
			b.Fatalf("a page of %d entries, %v", visited, err)
		}
	}
	after, pages := readSoFar(b, s), float64(b.N)
	b.ReportMetric(float64(after.Returned-before.Returned)/pages, "entries/op")
	b.ReportMetric(float64(after.Entries-before.Entries)/pages, "read/op")
	b.ReportMetric(float64(after.IndexBlocks-before.IndexBlocks)/pages, "seeks/op")
}

// filledLog returns a store with a log of messages that were delivered, each tenth after a
// failed attempt, over three days. Each hundredth has a rare label.
func filledLog(b testing.TB, messages int) *ruled {
	b.Helper()
	return filledLogOver(b, messages, 72*time.Hour)
}

// filledLogOver is filledLog over another time.
func filledLogOver(b testing.TB, messages int, span time.Duration) *ruled {
	b.Helper()
	s := open(b, vfs.NewMem())
	const batch = 100
	for first := 0; first < messages; first += batch {
		now := noon.Add(span / time.Duration(messages) * time.Duration(first))
		submissions := make([]store.Submission, batch)
		for i := range submissions {
			submissions[i].Messages = []*posthaste.Message{loggedMessage(first+i, now)}
		}
		if _, err := s.Accept(b.Context(), now, submissions); err != nil {
			b.Fatal(err)
		}
		settleAll(b, s, now)
	}
	settleAll(b, s, noon.Add(span))
	if err := s.Compact(b.Context()); err != nil {
		b.Fatal(err)
	}
	return s
}

func loggedMessage(number int, now time.Time) *posthaste.Message {
	m := anyMessage(now)
	m.URL = fmt.Sprintf("https://host-%d.example/hook", number%7)
	m.Body = make([]byte, 512)
	m.Method = http.MethodPost
	m.Header = http.Header{"Content-Type": {"application/octet-stream"}, "X-Tenant": {"ann"}}
	m.CallerIP = fmt.Sprintf("10.0.0.%d", number%100)
	m.Labels = []string{fmt.Sprintf("label-%d", number%5)}
	if number%100 == 50 {
		m.Labels = []string{"rare"}
	}
	return m
}

// settleAll claims what is due and settles it, a tenth of it to be tried again.
func settleAll(b testing.TB, s *ruled, now time.Time) {
	broken := posthaste.Outcome{
		Class:    posthaste.OutcomeRetryable,
		Response: &posthaste.Response{Status: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"1"}}, Body: []byte("try again later")},
		Error:    "the destination is not well",
	}
	for {
		claims, _, err := s.Claim(b.Context(), now, 200)
		if err != nil {
			b.Fatal(err)
		}
		if len(claims) == 0 {
			return
		}
		var settling sync.WaitGroup
		for i, claim := range claims {
			settlement := store.Delivered(claim)
			if claim.Retried == 0 && i%10 == 0 {
				settlement = store.RetryAt(claim, now.Add(time.Second), broken)
			}
			settling.Go(func() {
				if _, err := ledger.New(s).Settle(b.Context(), now, settlement); err != nil {
					b.Error(err)
				}
			})
		}
		settling.Wait()
	}
}

// BenchmarkFollow reads what was written last, as those do who follow the log: it is in
// memory.
func BenchmarkFollow(b *testing.B) {
	const messages = 1000
	s := open(b, vfs.NewMem())
	end, _, err := s.Watch(b.Context(), "ann") // from here on the store keeps what is written
	if err != nil {
		b.Fatal(err)
	}
	for number := range messages {
		submission := store.Submission{Messages: []*posthaste.Message{loggedMessage(number, noon)}}
		if _, err := s.Accept(b.Context(), noon, []store.Submission{submission}); err != nil {
			b.Fatal(err)
		}
	}
	settleAll(b, s, noon)
	for _, test := range []struct {
		name   string
		filter posthaste.Filter
	}{
		{"label", posthaste.Filter{Labels: []string{"label-1"}}},
		{"label and state", posthaste.Filter{Labels: []string{"label-1"}, States: []posthaste.State{posthaste.StateDelivered}}},
		{"host and path", posthaste.Filter{Hosts: []string{"host-1.example"}, Paths: []string{"/hook"}}},
	} {
		query := store.EventQuery{Filter: test.filter, Low: end + 1, High: posthaste.MaxPosition, Limit: 1000, OldestFirst: true}
		b.Run(test.name, func(b *testing.B) { readPages(b, s, query) })
	}
}
