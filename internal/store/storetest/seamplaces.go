package storetest

import (
	"bytes"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"posthaste"
	"posthaste/internal/store"
)

var seamPlacePromises = []seamPromise{
	{"an accepted message can be read and claimed", func(s *seam) {
		m := s.message()
		s.update(ann, func(tx store.Tx) error {
			acceptIn(tx, m)
			if got, err := tx.Message(m.ID); err != nil || got.URL != m.URL {
				s.Errorf("Message in the change = %+v, %v", got, err)
			}
			if p, err := tx.Place(m.ID); err != nil || p.State != posthaste.StateCreated || !p.Waits() {
				s.Errorf("Place in the change = %+v, %v", p, err)
			}
			return nil
		})
		s.wantWakeUp()
		s.wantPlace(m, func(p store.Place) bool {
			return p.State == posthaste.StateCreated && p.Waits() && p.Retried == 0 && p.DueAt.Equal(m.NotBefore) && !p.CancelRequested
		})
		s.claimThese(m)
		s.wantErr(store.ErrNotFound, errorOf(s.readMessage(anna, m.ID)))
	}},
	{"a delayed message is claimed when it is due", func(s *seam) {
		m := s.accept(delayed(time.Minute))
		s.claimThese()
		s.now = m.NotBefore
		s.claimThese(m)
	}},
	{"the place of a claimed message shows its lease", func(s *seam) {
		m := s.accept()
		claim := s.claimThese(m)[0]
		s.wantPlace(m, func(p store.Place) bool {
			return p.Lease == claim.Lease && p.Lease != 0 && !p.Waits() && !p.State.Terminal()
		})
		s.update(ann, func(tx store.Tx) error {
			if p := s.placeIn(tx, m); p.Lease != claim.Lease {
				s.Errorf("Lease = %d in a change, want %d", p.Lease, claim.Lease)
			}
			return nil
		})
		s.claimThese()
	}},
	{"a saved place without a lease is due again at once, in the same order", func(s *seam) {
		host := sentTo("http://same.example/")
		first, second := s.accept(host), s.accept(host, delayed(time.Second))
		s.now = second.NotBefore
		s.claimOnly(1, first)
		order := s.orderOf(first)
		s.save(first, func(p *store.Place) { p.Lease = 0 })
		s.wantWakeUp()
		if got := s.orderOf(first); got != order {
			s.Errorf("order %d, want %d as before", got, order)
		}
		s.claimOnly(1, first)
		s.claimThese(second)
	}},
	{"a saved place is due at its new time", func(s *seam) {
		m := s.accept()
		s.claimThese(m)
		due := s.now.Add(time.Minute)
		s.save(m, func(p *store.Place) {
			p.Lease, p.State, p.Retried, p.DueAt, p.Order = 0, posthaste.StateRetry, 3, due, posthaste.FirstPosition(due)
		})
		s.claimThese()
		s.now = due
		claim := s.claimThese(m)[0]
		if claim.Retried != 3 {
			s.Errorf("the claim has %d failed attempts, want 3", claim.Retried)
		}
	}},
	{"a waiting message can be made due earlier", func(s *seam) {
		m := s.accept(delayed(time.Hour))
		s.claimThese()
		s.drainWake()
		s.save(m, func(p *store.Place) { p.DueAt, p.Order = s.now, posthaste.FirstPosition(s.now) })
		s.wantWakeUp()
		s.claimThese(m)
	}},
	{"a requested cancellation is kept", func(s *seam) {
		m := s.accept()
		claim := s.claimThese(m)[0]
		s.save(m, func(p *store.Place) { p.CancelRequested = true })
		s.wantPlace(m, func(p store.Place) bool { return p.CancelRequested && p.Lease == claim.Lease })
		s.claimThese()
		s.save(m, func(p *store.Place) { p.Lease = 0 })
		s.wantPlace(m, func(p store.Place) bool { return p.CancelRequested && p.Waits() })
	}},
	{"an ended message is not claimed any more", func(s *seam) {
		waiting, claimed := s.accept(delayed(time.Minute)), s.accept()
		s.claimThese(claimed)
		for _, m := range []*posthaste.Message{waiting, claimed} {
			s.end(m, posthaste.StateCancelled)
			s.wantPlace(m, func(p store.Place) bool { return p.State == posthaste.StateCancelled && !p.Waits() && p.Lease == 0 })
			if got, err := s.readMessage(ann, m.ID); err != nil || string(got.Body) != string(m.Body) {
				s.Errorf("Message = %+v, %v", got, err)
			}
		}
		s.now = s.now.Add(time.Hour)
		s.claimThese()
	}},
	{"a message can end in the change that accepts it", func(s *seam) {
		m := s.message()
		s.update(ann, func(tx store.Tx) error {
			acceptIn(tx, m)
			endIn(tx, s.placeIn(tx, m), m, posthaste.StateCancelled)
			if p := s.placeIn(tx, m); p.State != posthaste.StateCancelled {
				s.Errorf("Place after End in the change = %+v", p)
			}
			return nil
		})
		s.claimThese()
		s.wantPlace(m, func(p store.Place) bool { return p.State == posthaste.StateCancelled })
	}},
	{"a place that was only read leaves the message claimable", func(s *seam) {
		m := s.accept()
		s.update(ann, func(tx store.Tx) error {
			s.placeIn(tx, m)
			return nil
		})
		s.claimThese(m)
	}},
	{"a change that fails leaves places as they were", func(s *seam) {
		waiting, claimed := s.accept(delayed(time.Second)), s.accept()
		claim := s.claimThese(claimed)[0]
		err := s.Update(s.Context(), s.now, scopeOf(ann), func(tx store.Tx) error {
			endIn(tx, s.placeIn(tx, waiting), waiting, posthaste.StateCancelled)
			p := s.placeIn(tx, claimed)
			p.Lease, p.CancelRequested = 0, true
			tx.Save(claimed, p)
			return errNoChange
		})
		s.wantErr(errNoChange, err)
		s.wantPlace(claimed, func(p store.Place) bool { return p.Lease == claim.Lease && !p.CancelRequested })
		s.now = waiting.NotBefore
		s.claimThese(waiting)
		s.end(claimed, posthaste.StateDelivered)
	}},
	{"claims and changes of the same messages never cross", func(s *seam) {
		const n = 24
		var messages []*posthaste.Message
		for range n {
			messages = append(messages, s.accept())
		}
		var mu sync.Mutex
		claimed := map[posthaste.MessageID]bool{}
		s.together(3, func(worker int) error {
			if worker == 0 {
				for range n {
					claims, _, err := s.Claim(s.Context(), s.now, 2)
					if err != nil {
						return err
					}
					mu.Lock()
					for _, c := range claims {
						claimed[c.Message.ID] = true
					}
					mu.Unlock()
				}
				return nil
			}
			for i := worker - 1; i < n; i += 2 {
				m := messages[i]
				err := s.Update(s.Context(), s.now, scopeOf(ann), func(tx store.Tx) error {
					if p := s.placeIn(tx, m); p.Lease == 0 {
						endIn(tx, p, m, posthaste.StateCancelled)
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		claims, _, err := s.Claim(s.Context(), s.now, plenty)
		if err != nil {
			s.Fatal(err)
		}
		for _, c := range claims {
			claimed[c.Message.ID] = true
		}
		for _, m := range messages {
			s.wantPlace(m, func(p store.Place) bool {
				return claimed[m.ID] == (p.Lease != 0) && claimed[m.ID] != p.State.Terminal()
			})
		}
	}},
	{"messages are kept whole, with bodies of every size", func(s *seam) {
		s.wantKept(s.accept(withEverything))
		s.wantKept(s.accept(func(m *posthaste.Message) { m.Body = nil }))
		for _, size := range []int{1, 4 << 10, 1 << 20} {
			s.wantKept(s.accept(func(m *posthaste.Message) { m.Body = bytes.Repeat([]byte{'x'}, size) }))
		}
	}},
}

// acceptIn accepts a message as the rules do, and logs it.
func acceptIn(tx store.Tx, m *posthaste.Message) {
	at, order := tx.Log(m, store.Created(m)), posthaste.FirstPosition(m.NotBefore)
	if m.Queue != "" {
		order = max(order, at)
	}
	tx.Accept(m, store.Place{State: posthaste.StateCreated, Order: order, DueAt: m.NotBefore})
}

// endIn takes a message out of its lane and logs how it ended.
func endIn(tx store.Tx, place *store.Place, m *posthaste.Message, state posthaste.State) {
	place.State, place.Lease = state, 0
	tx.Log(m, posthaste.Event{MessageID: m.ID, State: state})
	tx.Save(m, place)
}

func (s *seam) accept(edits ...func(*posthaste.Message)) *posthaste.Message {
	s.Helper()
	m := s.message(edits...)
	s.update(m.User, func(tx store.Tx) error {
		acceptIn(tx, m)
		return nil
	})
	return m
}

// placeIn returns the place of a message that must be stored.
func (s *seam) placeIn(r store.Reader, m *posthaste.Message) *store.Place {
	s.Helper()
	p, err := r.Place(m.ID)
	if err != nil {
		s.Errorf("Place %s: %v", m.ID, err)
		return &store.Place{}
	}
	return p
}

// save changes the place of a message.
func (s *seam) save(m *posthaste.Message, change func(*store.Place)) {
	s.Helper()
	s.update(m.User, func(tx store.Tx) error {
		p := s.placeIn(tx, m)
		change(p)
		tx.Save(m, p)
		return nil
	})
}

func (s *seam) end(m *posthaste.Message, state posthaste.State) {
	s.Helper()
	s.update(m.User, func(tx store.Tx) error {
		endIn(tx, s.placeIn(tx, m), m, state)
		return nil
	})
}

func (s *seam) wantPlace(m *posthaste.Message, right func(store.Place) bool) {
	s.Helper()
	s.view(m.User, func(r store.Reader) {
		if p := s.placeIn(r, m); !right(*p) {
			s.Errorf("Place of %s = %+v", m.ID, *p)
		}
	})
}

func (s *seam) orderOf(m *posthaste.Message) (order posthaste.Position) {
	s.Helper()
	s.view(m.User, func(r store.Reader) { order = s.placeIn(r, m).Order })
	return order
}

func (s *seam) readMessage(user string, id posthaste.MessageID) (m *posthaste.Message, err error) {
	s.Helper()
	s.view(user, func(r store.Reader) { m, err = r.Message(id) })
	return m, err
}

// wantKept requires a message to be read, logged and claimed as it was accepted.
func (s *seam) wantKept(m *posthaste.Message) {
	s.Helper()
	read, err := s.readMessage(m.User, m.ID)
	logged, logErr := readAll(s.Context(), s.Backend, m.User, store.EventQuery{
		Filter: posthaste.Filter{MessageIDs: []posthaste.MessageID{m.ID}}, High: posthaste.MaxPosition, Limit: plenty,
	})
	if err != nil || logErr != nil || len(logged) != 1 {
		s.Fatalf("Message: %v; %d events, %v", err, len(logged), logErr)
	}
	for what, got := range map[string]*posthaste.Message{"read": read, "logged": logged[0].Message, "claimed": s.claimThese(m)[0].Message} {
		if !bytes.Equal(m.Body, got.Body) {
			s.Errorf("message %s with a body of %d bytes, want that of %d", what, len(got.Body), len(m.Body))
		}
		if diff := cmp.Diff(m, got, cmpopts.IgnoreFields(posthaste.Message{}, "Body")); diff != "" { // it compares byte by byte
			s.Errorf("message %s (-want +got):\n%s", what, diff)
		}
	}
}

// claimThese claims all there is, which must be the given messages.
func (s *seam) claimThese(messages ...*posthaste.Message) []store.Claim {
	s.Helper()
	return s.claimOnly(plenty, messages...)
}

// claimOnly claims up to a limit, which must be the given messages, and drains Wake.
func (s *seam) claimOnly(limit int, messages ...*posthaste.Message) []store.Claim {
	s.Helper()
	s.drainWake()
	claims, _, err := s.Claim(s.Context(), s.now, limit)
	s.ok(err)
	return inOrder(s, claims, messages)
}

func (s *seam) drainWake() {
	for {
		select {
		case <-s.Wake():
		default:
			return
		}
	}
}

// wantWakeUp requires that Wake signals.
func (s *seam) wantWakeUp() {
	s.Helper()
	select {
	case <-s.Wake():
	case <-time.After(30 * time.Second):
		s.Error("Wake does not signal")
	}
}
