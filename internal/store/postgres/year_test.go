package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// BenchmarkYear reads pages of a log of a few messages a day, of a few days and of a year:
// what a page takes more of the latter is what days cost in which it finds nothing.
func BenchmarkYear(b *testing.B) {
	for _, days := range []int{4, 365} {
		b.Run(fmt.Sprintf("%d days", days), func(b *testing.B) {
			url, err := cluster.Create()
			if err != nil {
				b.Fatal(err)
			}
			s := open(b, url)
			first, last := fillDays(b, s, days)
			for _, page := range []struct {
				name   string
				filter posthaste.Filter
				limit  int
			}{
				{"all", posthaste.Filter{}, 100},
				{"rare label", posthaste.Filter{Labels: []string{"rare"}}, 100},
				{"rare label and state", posthaste.Filter{Labels: []string{"rare"}, States: []posthaste.State{posthaste.StateCreated}}, 100},
				{"no label", posthaste.Filter{Labels: []string{"none"}}, 100},
				{"the oldest message", posthaste.Filter{MessageIDs: []posthaste.MessageID{first}}, 3},
				{"the newest message", posthaste.Filter{MessageIDs: []posthaste.MessageID{last}}, 3},
			} {
				for _, oldestFirst := range []bool{false, true} {
					b.Run(fmt.Sprintf("%s/oldestFirst=%t", page.name, oldestFirst), func(b *testing.B) {
						query := store.EventQuery{Filter: page.filter, High: posthaste.MaxPosition, Limit: page.limit, OldestFirst: oldestFirst}
						for b.Loop() {
							if _, err := store.ReadEvents(b.Context(), s, ann, query); err != nil {
								b.Fatal(err)
							}
						}
					})
				}
			}
		})
	}
}

// fillDays accepts three messages a day. Ten of all have a rare label.
func fillDays(tb testing.TB, s store.Store, days int) (first, last posthaste.MessageID) {
	tb.Helper()
	for d := range days {
		for n := range 3 {
			now := start.Add(time.Duration(d)*24*time.Hour + time.Duration(n)*time.Hour)
			m := newMessage(now)
			if (3*d+n)%max(1, 3*days/10) == 0 {
				m.Labels = []string{"rare"}
			}
			if _, err := s.Accept(tb.Context(), now, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
				tb.Fatal(err)
			}
			if last = m.ID; first.IsZero() {
				first = m.ID
			}
		}
	}
	return first, last
}
