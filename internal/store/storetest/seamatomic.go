package storetest

import (
	"errors"
	"fmt"
	"strconv"

	"posthaste"
	"posthaste/internal/store"
)

var seamAtomicPromises = []seamPromise{
	{"a change that fails leaves nothing", func(s *seam) {
		m, waiting := s.message(), s.accept()
		entry := positionKey(7)
		term := store.Term{Field: 'u', Hash: 1}
		err := s.Update(s.Context(), s.now, scopeOf(ann), func(tx store.Tx) error {
			tx.Put(store.ItemURLGroup, []byte("g"), []byte("value"), store.Found{}, store.Found{})
			tx.Put(store.ItemSchedule, []byte("s"), []byte("value"), store.Found{}, store.Found{DueAt: s.now})
			tx.Put(store.ItemDeadLetter, entry, []byte("value"), store.Found{}, store.Found{Terms: []store.Term{term}})
			tx.Put(store.ItemQueue, []byte("q"), queueRecord(posthaste.Queue{Parallelism: 1}), store.Found{}, store.Found{})
			tx.Count(deadLetters, 1, 5)
			tx.Count(runs, 1, 5)
			acceptIn(tx, m)
			endIn(tx, s.placeIn(tx, waiting), waiting, posthaste.StateCancelled)
			return errNoChange
		})
		s.wantErr(errNoChange, err)
		s.view(ann, func(r store.Reader) {
			for _, key := range []store.RecordKey{
				{Kind: store.ItemURLGroup, Key: []byte("g")}, {Kind: store.ItemSchedule, Key: []byte("s")},
				{Kind: store.ItemDeadLetter, Key: entry}, {Kind: store.ItemQueue, Key: []byte("q")},
			} {
				s.wantNone(r, key.Kind, string(key.Key))
				if keys := s.scanAll(r, key.Kind, nil, nil, plenty); len(keys) > 0 {
					s.Errorf("%s: Scan finds %q", key.Kind, keys)
				}
			}
			s.wantErr(store.ErrNotFound, errorOf(r.Message(m.ID)))
			s.wantErr(store.ErrNotFound, errorOf(r.Place(m.ID)))
		})
		if found := s.findAll(ann, findQuery(func(q *store.FindQuery) { q.Terms = [][]store.Term{{term}} })); len(found) > 0 {
			s.Errorf("Find finds %v", found)
		}
		if due, next := s.due(store.ItemSchedule, plenty); len(due) > 0 || !next.IsZero() {
			s.Errorf("Due = %q, %v", due, next)
		}
		usage, err := s.Usage(s.Context(), ann)
		if err != nil || usage.DeadLetters.Entries != 0 || usage.Runs.Entries != 0 {
			s.Errorf("Usage = %+v, %v, want no dead letter and no run", usage, err)
		}
		if got := s.statesOf(ann, m.ID); len(got) > 0 {
			s.Errorf("the log has %v", got)
		}
		s.claimThese(waiting)
	}},
	{"a change of several users happens for all of them or for none", func(s *seam) {
		b, ok := s.Backend.(store.Divisible)
		if !ok {
			s.Skip("its users are divided")
		}
		mine, hers := s.accept(), s.accept(ownedBy(anna))
		both := func(result error) {
			s.Helper()
			scopes := []store.Scope{scopeOf(ann), {User: anna, Hint: store.Hint{Places: []posthaste.MessageID{hers.ID}}}}
			s.wantErr(result, b.UpdateSeveral(s.Context(), s.now, scopes, func(txs []store.Tx) error {
				for i, m := range []*posthaste.Message{mine, hers} {
					txs[i].Put(store.ItemURLGroup, []byte("g"), []byte(m.User), store.Found{}, store.Found{})
					endIn(txs[i], s.placeIn(txs[i], m), m, posthaste.StateCancelled)
				}
				return result
			}))
		}
		both(errNoChange)
		for _, m := range []*posthaste.Message{mine, hers} {
			s.view(m.User, func(r store.Reader) { s.wantNone(r, store.ItemURLGroup, "g") })
			s.wantPlace(m, func(p store.Place) bool { return p.Waits() })
		}
		both(nil)
		for _, m := range []*posthaste.Message{mine, hers} {
			s.view(m.User, func(r store.Reader) { s.wantValue(r, store.ItemURLGroup, "g", m.User) })
			s.wantPlace(m, func(p store.Place) bool { return p.State == posthaste.StateCancelled })
		}
		s.claimThese()
	}},
	{"concurrent changes of a record happen one after another", func(s *seam) {
		const workers, times = 8, 12
		s.together(workers, func(int) error {
			for range times {
				err := s.Update(s.Context(), s.now, scopeOf(ann), func(tx store.Tx) error {
					return addTo(tx, "counter", 1)
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		s.view(ann, func(r store.Reader) { s.wantValue(r, store.ItemURLGroup, "counter", strconv.Itoa(workers*times)) })
	}},
	{"concurrent changes see the records that others wrote", func(s *seam) {
		const workers, times = 6, 8
		s.together(workers, func(worker int) error {
			for i := range times {
				err := s.Update(s.Context(), s.now, scopeOf(ann), func(tx store.Tx) error {
					n := 0
					_, err := tx.Scan(store.ItemURLGroup, []byte("mine/"), nil, plenty, func(_, _ []byte) error {
						n++
						return nil
					})
					// Without the records of others, two would write the same key.
					tx.Put(store.ItemURLGroup, fmt.Appendf(nil, "mine/%03d", n), fmt.Appendf(nil, "%d %d", worker, i), store.Found{}, store.Found{})
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		s.view(ann, func(r store.Reader) {
			if keys := s.scanAll(r, store.ItemURLGroup, nil, nil, plenty); len(keys) != workers*times {
				s.Errorf("%d records, want %d", len(keys), workers*times)
			}
		})
	}},
	{"a transfer between records loses nothing while others read", func(s *seam) {
		s.update(ann, func(tx store.Tx) error { return errors.Join(addTo(tx, "a", 100), addTo(tx, "b", 0)) })
		s.together(6, func(worker int) error {
			for range 8 {
				err := s.Update(s.Context(), s.now, scopeOf(ann), func(tx store.Tx) error {
					a, errA := numberIn(tx, "a")
					b, errB := numberIn(tx, "b")
					if a+b != 100 {
						return fmt.Errorf("an Update saw %d and %d", a, b)
					}
					return errors.Join(errA, errB, addTo(tx, "a", -worker), addTo(tx, "b", worker))
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}},
	{"counts are what Usage returns", func(s *seam) {
		s.update(ann, func(tx store.Tx) error {
			for i := range 3 {
				tx.Put(store.ItemDeadLetter, positionKey(posthaste.FirstPosition(s.now)+posthaste.Position(i)), []byte("d"), store.Found{}, store.Found{})
			}
			tx.Count(deadLetters, 3, 30)
			return nil
		})
		s.update(ann, func(tx store.Tx) error {
			tx.Delete(store.ItemDeadLetter, positionKey(posthaste.FirstPosition(s.now)), store.Found{})
			tx.Count(deadLetters, -1, -10)
			return nil
		})
		for user, want := range map[string]int64{ann: 2, anna: 0} {
			if usage, err := s.Usage(s.Context(), user); err != nil || usage.DeadLetters.Entries != want {
				s.Errorf("Usage of %s: %+v, %v, want %d dead letters", user, usage.DeadLetters, err, want)
			}
		}
	}},
}

// numberIn returns the number that a record has, 0 if there is none.
func numberIn(tx store.Tx, key string) (int, error) {
	value, err := tx.Get(store.ItemURLGroup, []byte(key))
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(value))
}

// addTo adds to the number that a record has.
func addTo(tx store.Tx, key string, n int) error {
	number, err := numberIn(tx, key)
	tx.Put(store.ItemURLGroup, []byte(key), strconv.AppendInt(nil, int64(number+n), 10), store.Found{}, store.Found{})
	return err
}
