package storetest

import (
	"slices"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var seamQueuePromises = []seamPromise{
	{"messages of a queue keep their slot until they end", func(s *seam) {
		s.putQueue(posthaste.Queue{Name: "q", Parallelism: 1})
		first, second := s.accept(through("q")), s.accept(through("q"))
		s.claimThese(first)
		retry := s.now.Add(time.Minute)
		s.save(first, func(p *store.Place) { p.Lease, p.State, p.Retried, p.DueAt = 0, posthaste.StateRetry, 1, retry })
		s.claimThese()
		s.now = retry
		s.claimThese(first)
		s.end(first, posthaste.StateDelivered)
		s.wantWakeUp()
		s.claimThese(second)
	}},
	{"a message that lingers keeps its slot until it is taken out", func(s *seam) {
		s.putQueue(posthaste.Queue{Name: "q", Parallelism: 1})
		first, second := s.accept(through("q")), s.accept(through("q"))
		s.claimThese(first)
		s.update(ann, func(tx store.Tx) error {
			p := s.placeIn(tx, first)
			p.State, p.Lease, p.Callbacks, p.Lingers = posthaste.StateDelivered, 0, 2, true
			tx.Log(first, posthaste.Event{MessageID: first.ID, State: posthaste.StateDelivered})
			tx.Save(first, p)
			return nil
		})
		s.claimThese()
		s.wantPlace(first, func(p store.Place) bool {
			return p.State == posthaste.StateDelivered && p.Lingers && p.Callbacks == 2 && !p.Waits()
		})
		s.save(first, func(p *store.Place) { p.Callbacks-- })
		s.claimThese()
		s.update(ann, func(tx store.Tx) error {
			p := s.placeIn(tx, first)
			p.Callbacks, p.Lingers = 0, false
			tx.Save(first, p)
			return nil
		})
		s.wantPlace(first, func(p store.Place) bool { return p.State == posthaste.StateDelivered && !p.Lingers })
		s.claimThese(second)
	}},
	{"a paused queue hands out nothing until it goes on", func(s *seam) {
		s.putQueue(posthaste.Queue{Name: "q", Parallelism: 1, Paused: true})
		m := s.accept(through("q"))
		s.claimThese()
		s.drainWake()
		s.putQueue(posthaste.Queue{Name: "q", Parallelism: 1})
		s.wantWakeUp()
		s.claimThese(m)
	}},
	{"a wider queue applies at once", func(s *seam) {
		s.putQueue(posthaste.Queue{Name: "q", Parallelism: 1})
		first, second, third := s.accept(through("q")), s.accept(through("q")), s.accept(through("q"))
		s.claimThese(first)
		s.putQueue(posthaste.Queue{Name: "q", Parallelism: 3})
		s.claimThese(second, third)
	}},
	{"a queue whose change failed stays as it is", func(s *seam) {
		s.putQueue(posthaste.Queue{Name: "q", Parallelism: 1})
		err := s.Update(s.Context(), s.now, scopeOf(ann), func(tx store.Tx) error {
			tx.Put(store.ItemQueue, []byte("q"), queueRecord(posthaste.Queue{Parallelism: 1, Paused: true}), store.Found{}, store.Found{})
			return errNoChange
		})
		s.wantErr(errNoChange, err)
		s.claimThese(s.accept(through("q")))
	}},
}

var seamLanePromises = []seamPromise{
	{"messages that wait or are claimed are found in parts, and those of a queue alone", func(s *seam) {
		s.putQueue(posthaste.Queue{Name: "q", Parallelism: 1})
		for _, queue := range []string{"q", strings.Repeat("q", 300)} {
			others := []*posthaste.Message{
				s.accept(through("r")), s.accept(through("r" + queue)), s.accept(underKey(queue)), s.accept(),
				s.accept(underKey(queue), delayed(time.Hour)), s.accept(delayed(time.Hour)),
			}
			var own []*posthaste.Message
			for range 7 {
				own = append(own, s.accept(through(queue)))
			}
			own = append(own, s.accept(through(queue), delayed(time.Hour)))
			s.claimQueue(queue, own[0].ID)
			s.end(own[3], posthaste.StateCancelled)
			s.save(own[4], func(p *store.Place) { p.CancelRequested = true })
			own = slices.Delete(own, 3, 5)
			for _, limit := range []int{1, 3, plenty} {
				s.wantLive(store.LiveQuery{Filter: posthaste.Filter{Queues: []string{queue}}, Limit: limit}, own...)
				s.wantLive(store.LiveQuery{Limit: limit}, append(others, own...)...)
			}
			for _, m := range append(others, own...) {
				s.end(m, posthaste.StateCancelled)
			}
		}
	}},
}

var seamCountPromises = []seamPromise{
	{"lanes are counted by what has not ended in them", func(s *seam) {
		s.putQueue(posthaste.Queue{Name: "q", Parallelism: 2})
		first, second := s.accept(through("q")), s.accept(through("q"))
		s.accept(through("q"), delayed(time.Hour))
		s.accept(through("other"))
		s.accept(through("q"), ownedBy(anna))
		s.claimQueue("q", first.ID)
		s.end(first, posthaste.StateCancelled)
		s.save(second, func(p *store.Place) {
			p.State, p.Lease, p.Callbacks, p.Lingers = posthaste.StateDelivered, 0, 1, true
		})
		lanes := []posthaste.Lane{
			{Kind: posthaste.LaneQueue, Name: "q"}, {Kind: posthaste.LaneQueue, Name: "none"},
			{Kind: posthaste.LaneQueue, Name: "other"}, {Kind: posthaste.LaneFlow, Name: "q"},
		}
		s.view(ann, func(r store.Reader) {
			if got, err := r.LaneLengths(lanes); err != nil || !slices.Equal(got, []int{1, 0, 1, 0}) {
				s.Errorf("LaneLengths = %v, %v, want 1, 0, 1, 0", got, err)
			}
			if got, err := r.LaneLengths(nil); err != nil || len(got) > 0 {
				s.Errorf("LaneLengths of nothing = %v, %v", got, err)
			}
		})
	}},
	{"messages are counted under their keys, in queues too", func(s *seam) {
		s.putFlowKey(posthaste.FlowKey{Key: "k", FlowLimit: posthaste.FlowLimit{Parallelism: 1}})
		s.putQueue(posthaste.Queue{Name: "q", Parallelism: 9})
		first := s.accept(underKey("k"))
		s.claimThese(first)
		s.accept(underKey("k"))
		s.accept(underKey("k"), delayed(time.Hour))
		s.accept(underKey("k"), through("q"))
		s.accept(underKey("k"), through("q"), delayed(time.Hour))
		ended := s.accept(underKey("k"), through("q"))
		s.end(ended, posthaste.StateCancelled)
		s.accept(underKey("k"), ownedBy(anna))
		s.accept(underKey("other"), delayed(time.Minute))
		keys := []string{"k", "none", "other"}
		for dueBy, want := range map[time.Time][]store.KeyUse{
			s.now:                                {{InFlight: 1, Waiting: 2}, {}, {}},
			s.now.Add(time.Minute):               {{InFlight: 1, Waiting: 2}, {}, {Waiting: 1}},
			time.UnixMilli(1<<63 - 1):            {{InFlight: 1, Waiting: 4}, {}, {Waiting: 1}},
			s.now.Add(time.Hour - time.Second/2): {{InFlight: 1, Waiting: 2}, {}, {Waiting: 1}},
		} {
			s.view(ann, func(r store.Reader) {
				if got, err := r.UnderKeys(keys, dueBy, plenty); err != nil || !slices.Equal(got, want) {
					s.Errorf("UnderKeys until %v = %v, %v, want %v", dueBy, got, err, want)
				}
			})
		}
	}},
}

// claimQueue claims all there is, which must include the message.
func (s *seam) claimQueue(queue string, id posthaste.MessageID) {
	s.Helper()
	claims, _, err := s.Claim(s.Context(), s.now, plenty)
	if err != nil || !slices.Contains(idsOf(claims), id) {
		s.Fatalf("Claim = %v, %v, want %s of queue %q too", idsOf(claims), err, id, queue)
	}
}

// wantLive requires LiveMessages to find these messages of ann, each once, in any order.
func (s *seam) wantLive(query store.LiveQuery, want ...*posthaste.Message) {
	s.Helper()
	wantLive(s, s.Backend, query, want)
}

var seamFlowKeyPromises = []seamPromise{
	{"a key limits its messages, and a change of it applies at once", func(s *seam) {
		s.putFlowKey(posthaste.FlowKey{Key: "k", FlowLimit: posthaste.FlowLimit{Parallelism: 1}})
		first, second := s.accept(underKey("k")), s.accept(underKey("k"))
		s.claimOnly(plenty, first)
		s.claimThese()
		s.putFlowKey(posthaste.FlowKey{Key: "k", FlowLimit: posthaste.FlowLimit{Parallelism: 2}})
		s.claimThese(second)
	}},
	{"a paused key hands out nothing until it goes on", func(s *seam) {
		s.putFlowKey(posthaste.FlowKey{Key: "k", Paused: true})
		m := s.accept(underKey("k"))
		s.claimThese()
		s.drainWake()
		s.putFlowKey(posthaste.FlowKey{Key: "k"})
		s.wantWakeUp()
		s.claimThese(m)
	}},
	{"the window of a key is as of now, and stays unless it was changed", func(s *seam) {
		limit := posthaste.FlowLimit{Rate: 2, Period: time.Hour}
		s.putFlowKey(posthaste.FlowKey{Key: "k", FlowLimit: limit})
		for range 3 {
			s.accept(underKey("k"))
		}
		if claims, _, err := s.Claim(s.Context(), s.now, plenty); err != nil || len(claims) != 2 {
			s.Fatalf("Claim = %v, %v, want two", idsOf(claims), err)
		}
		s.now = s.now.Add(time.Minute)
		check := func(r store.Reader) {
			if k := s.flowKey(r, "k"); k.WindowCount != 2 || k.WindowStartedAt.After(s.now) || k.WindowStartedAt.Before(start) {
				s.Errorf("window of %d attempts that began at %v, want 2 since %v", k.WindowCount, k.WindowStartedAt, start)
			}
		}
		s.view(ann, check)
		s.updateFlowKey("k", func(k *posthaste.FlowKey) { k.PinnedRate = true })
		s.view(ann, check)
		s.claimThese()
		s.updateFlowKey("k", func(k *posthaste.FlowKey) { k.ResetRate(s.now) })
		if claims, _, err := s.Claim(s.Context(), s.now, plenty); err != nil || len(claims) != 1 {
			s.Errorf("Claim in a new window = %v, %v, want one", idsOf(claims), err)
		}
	}},
}

func underKey(key string) func(*posthaste.Message) {
	return func(m *posthaste.Message) { m.FlowControl.Key = key }
}
