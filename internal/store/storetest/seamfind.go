package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// findQuery makes a query of dead letters.
func findQuery(edit func(*store.FindQuery)) store.FindQuery {
	q := store.FindQuery{Kind: store.ItemDeadLetter, High: posthaste.MaxPosition, Limit: plenty}
	edit(&q)
	return q
}

// colours and sizes are the terms of the records that findable puts: position 10·i has colour
// i%3 and size i%2, and every record has the term common.
func colour(i int) store.Term { return store.Term{Field: 'u', Hash: uint64(i % 3)} }
func size(i int) store.Term   { return store.Term{Field: 'l', Hash: uint64(i % 2)} }

var common = store.Term{Field: 'h', Hash: 1<<56 - 1}

func findable(i int) store.Found { return store.Found{Terms: []store.Term{colour(i), size(i), common}} }

// findableAt is the position of record i.
func findableAt(i int) posthaste.Position {
	return posthaste.FirstPosition(start) + posthaste.Position(10*i)
}

const findables = 60

func (s *seam) putFindable(kind store.ItemKind) {
	s.Helper()
	value := func(i int) []byte { return fmt.Appendf(nil, "value %d", i) }
	if kind == store.ItemRun || kind == store.ItemRunDeadLetter {
		value = func(i int) []byte { return record.AppendParts(nil, fmt.Appendf(nil, "%08d", i), []byte("part")) }
	}
	s.reachPosition(findableAt(findables))
	s.update(ann, func(tx store.Tx) error {
		for i := range findables {
			tx.Put(kind, positionKey(findableAt(i)), value(i), store.Found{}, findable(i))
		}
		return nil
	})
	s.update(anna, func(tx store.Tx) error {
		tx.Put(kind, positionKey(findableAt(1)), value(1), store.Found{}, findable(1))
		return nil
	})
}

// reachPosition lets positions go beyond one: what is found has a position that was given.
func (s *seam) reachPosition(p posthaste.Position) {
	s.Helper()
	m := s.message()
	err := s.Update(s.Context(), p.Time().Add(time.Second), scopeOf(ann), func(tx store.Tx) error {
		acceptIn(tx, m)
		endIn(tx, s.placeIn(tx, m), m, posthaste.StateCancelled)
		return nil
	})
	if err != nil {
		s.Fatalf("Update: %v", err)
	}
}

// wantFound requires a query, in both orders and with several limits, to find the records that
// are wanted, one per position.
func (s *seam) wantFound(query store.FindQuery, wanted func(i int) bool) {
	s.Helper()
	var want []posthaste.Position
	for i := range findables {
		if wanted(i) {
			want = append(want, findableAt(i))
		}
	}
	for _, limit := range []int{1, 7, plenty} {
		query.Limit = limit
		query.OldestFirst = true
		if got := s.findAll(ann, query); !slices.Equal(got, want) {
			s.Errorf("%+v finds %v, want %v", query, got, want)
		}
		query.OldestFirst = false
		got := s.findAll(ann, query)
		if slices.Reverse(got); !slices.Equal(got, want) {
			s.Errorf("%+v finds, in the other order, %v, want %v", query, got, want)
		}
	}
}

var seamFindPromises = []seamPromise{
	{"records are found by terms, positions and bounds", func(s *seam) {
		for _, kind := range []store.ItemKind{store.ItemDeadLetter, store.ItemRun, store.ItemRunDeadLetter} {
			s.putFindable(kind)
			query := func(terms ...[]store.Term) store.FindQuery {
				return store.FindQuery{Kind: kind, Terms: terms, High: posthaste.MaxPosition}
			}
			s.wantFound(query(), func(int) bool { return true })
			s.wantFound(query([]store.Term{common}), func(int) bool { return true })
			s.wantFound(query([]store.Term{colour(1)}), func(i int) bool { return i%3 == 1 })
			s.wantFound(query([]store.Term{colour(1), colour(2)}), func(i int) bool { return i%3 != 0 })
			s.wantFound(query([]store.Term{colour(1)}, []store.Term{size(0)}), func(i int) bool { return i%3 == 1 && i%2 == 0 })
			s.wantFound(query([]store.Term{colour(1), colour(0)}, []store.Term{size(1), {Field: 'l', Hash: 77}}, []store.Term{common}),
				func(i int) bool { return i%3 < 2 && i%2 == 1 })
			s.wantFound(query([]store.Term{{Field: 'u', Hash: 99}}), func(int) bool { return false })
			s.wantFound(query([]store.Term{{Field: 'l', Hash: 2}}), func(int) bool { return false })

			bounded := query([]store.Term{size(0)})
			bounded.Low, bounded.High = findableAt(10), findableAt(20)
			s.wantFound(bounded, func(i int) bool { return i%2 == 0 && i >= 10 && i <= 20 })
			bounded.Terms = nil
			s.wantFound(bounded, func(i int) bool { return i >= 10 && i <= 20 })
			bounded.Low, bounded.High = findableAt(10)+1, findableAt(11)-1
			s.wantFound(bounded, func(int) bool { return false })

			at := query()
			at.At = []posthaste.Position{findableAt(30), findableAt(4), findableAt(4) + 1, findableAt(31)}
			s.wantFound(at, func(i int) bool { return i == 4 || i == 30 || i == 31 })
			at.Low, at.High = findableAt(5), findableAt(30)
			s.wantFound(at, func(i int) bool { return i == 30 })
		}
	}},
	{"a record is found by what it was put with last", func(s *seam) {
		s.putFindable(store.ItemDeadLetter)
		other := store.Found{Terms: []store.Term{{Field: 'u', Hash: 50}, common}}
		s.update(ann, func(tx store.Tx) error {
			tx.Put(store.ItemDeadLetter, positionKey(findableAt(4)), []byte("changed"), findable(4), other)
			tx.Delete(store.ItemDeadLetter, positionKey(findableAt(7)), findable(7))
			return nil
		})
		s.wantFound(findQuery(func(q *store.FindQuery) { q.Terms = [][]store.Term{{colour(1)}} }), func(i int) bool { return i%3 == 1 && i != 4 && i != 7 })
		s.wantFound(findQuery(func(q *store.FindQuery) { q.Terms = [][]store.Term{{other.Terms[0]}} }), func(i int) bool { return i == 4 })
		s.wantFound(findQuery(func(q *store.FindQuery) { q.Terms = [][]store.Term{{common}} }), func(i int) bool { return i != 7 })
		s.wantFound(findQuery(func(*store.FindQuery) {}), func(i int) bool { return i != 7 })
		values := 0
		s.view(ann, func(r store.Reader) {
			_, _, err := r.Find(findQuery(func(q *store.FindQuery) { q.At = []posthaste.Position{findableAt(4)} }),
				func(_ posthaste.Position, value []byte) (bool, error) {
					if values++; string(value) != "changed" {
						s.Errorf("value %q, want the changed one", value)
					}
					return false, nil
				})
			if err != nil || values != 1 {
				s.Errorf("Find visits %d, %v, want one", values, err)
			}
		})
	}},
	{"a full visitor decides where the next page begins", func(s *seam) {
		s.putFindable(store.ItemDeadLetter)
		for _, terms := range [][][]store.Term{nil, {{size(0)}}} {
			for _, oldestFirst := range []bool{true, false} {
				query := findQuery(func(q *store.FindQuery) { q.Terms, q.OldestFirst = terms, oldestFirst })
				all := s.findAll(ann, query)
				s.view(ann, func(r store.Reader) {
					visited := 0
					next, more, err := r.Find(query, func(posthaste.Position, []byte) (bool, error) {
						visited++
						return visited == 4, nil
					})
					if err != nil || !more || next != all[3] {
						s.Errorf("Find = %d, %v, %v, want to continue at %d", next, more, err, all[3])
					}
				})
			}
		}
	}},
	{"an error of the visitor ends Find", func(s *seam) {
		s.putFindable(store.ItemDeadLetter)
		s.view(ann, func(r store.Reader) {
			visited := 0
			_, _, err := r.Find(findQuery(func(*store.FindQuery) {}), func(posthaste.Position, []byte) (bool, error) {
				visited++
				return false, errNoChange
			})
			if !errors.Is(err, errNoChange) || visited != 1 {
				s.Errorf("Find = %v after %d, want the visitor's error after one", err, visited)
			}
		})
	}},
}

// findAll returns the positions that all pages of a query visit.
func (s *seam) findAll(user string, query store.FindQuery) (found []posthaste.Position) {
	s.Helper()
	s.view(user, func(r store.Reader) {
		for range 10 * plenty {
			next, more, err := r.Find(query, func(at posthaste.Position, _ []byte) (bool, error) {
				found = append(found, at)
				return false, nil
			})
			if err != nil {
				s.Fatalf("Find %+v: %v", query, err)
			}
			if !more {
				return
			}
			if query.OldestFirst {
				query.Low = next
			} else {
				query.High = next
			}
		}
		s.Fatalf("Find %+v does not come to an end", query)
	})
	return found
}
