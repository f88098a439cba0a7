package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var seamLogPromises = []seamPromise{
	{"positions ascend, and Events shows what was logged", func(s *seam) {
		m, other := s.accept(), s.accept()
		response := &posthaste.Response{Status: 500, Body: []byte("answer"), Header: map[string][]string{"A": {"b"}}}
		var logged []posthaste.Position
		for range 2 {
			var positions []posthaste.Position
			s.update(ann, func(tx store.Tx) error {
				positions = positions[:0]
				p := s.placeIn(tx, m)
				positions = append(positions,
					tx.Log(m, posthaste.Event{MessageID: m.ID, State: posthaste.StateError, Error: "no", Response: response}),
					tx.NextPosition(0),
					tx.Log(other, posthaste.Event{MessageID: other.ID, State: posthaste.StateCancelRequested}),
					tx.NextPosition(0),
					tx.Log(m, posthaste.Event{MessageID: m.ID, State: posthaste.StateRetry, NextDeliveryAt: m.NotBefore}))
				tx.Save(m, p)
				return nil
			})
			logged = append(logged, positions...)
		}
		if !slices.IsSorted(logged) || len(slices.Compact(slices.Clone(logged))) != len(logged) {
			s.Errorf("positions %v do not ascend", logged)
		}
		entries, err := readAll(s.Context(), s.Backend, ann, store.EventQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: plenty})
		if err != nil {
			s.Fatal(err)
		}
		if len(entries) != 2+2*3 {
			s.Fatalf("%d events, want two of acceptance and six", len(entries))
		}
		for i, want := range []int{0, 2, 4, 5, 7, 9} {
			if entries[2+i].Position != logged[want] {
				s.Errorf("event %d is at %d, want %d as returned", i, entries[2+i].Position, logged[want])
			}
		}
		failed := entries[2]
		if failed.State != posthaste.StateError || failed.Error != "no" || failed.MessageID != m.ID || failed.Response == nil ||
			failed.Response.Status != 500 || string(failed.Response.Body) != "answer" {
			s.Errorf("the first event is %+v", failed.Event)
		}
		if logged[0] <= entries[1].Position {
			s.Errorf("position %d is not above the events before it", logged[0])
		}
		if got := s.statesOf(ann, m.ID); !slices.Equal(got, []posthaste.State{"CREATED", "ERROR", "RETRY", "ERROR", "RETRY"}) {
			s.Errorf("log of the message: %v", got)
		}
		if got := s.statesOf(anna, m.ID); len(got) > 0 {
			s.Errorf("another user reads %v", got)
		}
	}},
	{"positions are unique between concurrent changes", func(s *seam) {
		var mu sync.Mutex
		taken := map[posthaste.Position]bool{}
		s.together(6, func(int) error {
			for range 6 {
				var p, q posthaste.Position
				err := s.Update(s.Context(), s.now, scopeOf(ann), func(tx store.Tx) error {
					p, q = tx.NextPosition(0), tx.NextPosition(0)
					tx.Put(store.ItemURLGroup, positionKey(p), []byte("v"), store.Found{}, store.Found{})
					return nil
				})
				if err != nil {
					return err
				}
				mu.Lock()
				if q <= p || taken[p] || taken[q] {
					err = fmt.Errorf("positions %d and %d were given before, or do not ascend", p, q)
				}
				taken[p], taken[q] = true, true
				mu.Unlock()
				if err != nil {
					return err
				}
			}
			return nil
		})
	}},
	{"a page finds what two frequent values share, however rarely", func(s *seam) {
		const changes, each, inHour = 96, 250, 4 // more than a page reads at first
		bad, good, both := s.message(), s.message(), s.message()
		bad.Labels, good.Labels, both.Labels = []string{"bad"}, []string{"good"}, []string{"good"}
		bad.URL, good.URL, both.URL = "http://a.example/", "http://b.example/", "http://a.example/"
		for n := range changes {
			s.update(ann, func(tx store.Tx) error {
				for _, m := range []*posthaste.Message{bad, good, both} {
					if n == 0 {
						acceptIn(tx, m)
					}
				}
				for range each {
					for _, m := range []*posthaste.Message{bad, good} {
						tx.Log(m, posthaste.Event{MessageID: m.ID, State: posthaste.StateActive})
					}
				}
				return nil
			})
			s.now = s.now.Add(time.Hour / inHour)
		}
		for _, filter := range []posthaste.Filter{
			{Labels: both.Labels, Hosts: []string{"a.example"}},
			{Labels: []string{"good", "nobody's"}, Hosts: []string{"nobody.example", "a.example"}},
		} {
			query := logQuery(filter)
			for _, query.OldestFirst = range []bool{true, false} {
				page, err := store.ReadEvents(s.Context(), s.Backend, ann, query)
				if err != nil || len(page.Entries) != 1 || page.Entries[0].MessageID != both.ID || page.More {
					s.Errorf("%v, oldest first %v: %d entries, more: %v, %v; want one", filter, query.OldestFirst, len(page.Entries), page.More, err)
				}
			}
		}
	}},
	{"positions of a change begin at its time", func(s *seam) {
		s.update(ann, func(tx store.Tx) error {
			if at := tx.NextPosition(0); at < posthaste.FirstPosition(s.now) {
				s.Errorf("position %d is before %d, the first of now", at, posthaste.FirstPosition(s.now))
			}
			return nil
		})
	}},
}

// statesOf returns the states of a message's events, oldest first.
func (s *seam) statesOf(user string, id posthaste.MessageID) (states []posthaste.State) {
	s.Helper()
	entries, err := readAll(s.Context(), s.Backend, user, logQuery(posthaste.Filter{MessageIDs: []posthaste.MessageID{id}}))
	if err != nil {
		s.Fatal(err)
	}
	for _, e := range entries {
		states = append(states, e.State)
	}
	return states
}
