package storetest

import (
	"slices"
	"time"

	"posthaste/internal/store"
)

var seamDuePromises = []seamPromise{
	{"due records of all users come earliest first", func(s *seam) {
		at := func(minutes int) store.Found {
			return store.Found{DueAt: s.now.Add(time.Duration(minutes) * time.Minute)}
		}
		for _, d := range []struct {
			user, key string
			minutes   int
		}{{ann, "late", 5}, {anna, "second", -2}, {ann, "first", -3}, {ann, "third", 0}, {anna, "later", 9}} {
			s.update(d.user, func(tx store.Tx) error {
				tx.Put(store.ItemSchedule, []byte(d.key), []byte("value of "+d.key), store.Found{}, at(d.minutes))
				return nil
			})
		}
		s.put(ann, store.ItemSchedule, "never", "value")
		s.wantDue(at(5).DueAt, []string{"ann/first", "anna/second", "ann/third"})
		s.wantDue(at(9).DueAt, []string{"anna/second"}, ann)
		s.wantDue(time.Time{}, nil, ann, anna)
		if due, next := s.due(store.ItemSchedule, 2); !slices.Equal(due, []string{"ann/first", "anna/second"}) || next.IsZero() || next.After(s.now) {
			s.Errorf("Due with limit 2 = %q, next %v, want two and that more are due", due, next)
		}
		s.update(ann, func(tx store.Tx) error {
			tx.Put(store.ItemSchedule, []byte("first"), []byte("value of first"), at(-3), at(7))
			tx.Put(store.ItemSchedule, []byte("late"), []byte("value of late"), at(5), store.Found{})
			tx.Delete(store.ItemSchedule, []byte("third"), at(0))
			return nil
		})
		s.wantDue(at(7).DueAt, []string{"anna/second"})
		s.now = s.now.Add(time.Hour)
		s.wantDue(time.Time{}, []string{"anna/second", "ann/first", "anna/later"})
	}},
	{"a changed value leaves a record due", func(s *seam) {
		was, due := store.Found{}, store.Found{DueAt: s.now}
		for _, value := range []string{"value", "value of s"} {
			s.update(ann, func(tx store.Tx) error {
				tx.Put(store.ItemSchedule, []byte("s"), []byte(value), was, due)
				return nil
			})
			was = due
		}
		s.wantDue(time.Time{}, []string{"ann/s"})
	}},
}

// due returns what is due as user/key. The value of each must be "value of" its key.
func (s *seam) due(kind store.ItemKind, limit int, except ...string) (due []string, next time.Time) {
	s.Helper()
	records, next, err := s.Due(s.Context(), kind, s.now, limit, except...)
	if err != nil {
		s.Fatalf("Due: %v", err)
	}
	for _, r := range records {
		if due = append(due, r.User+"/"+string(r.Key)); r.Kind != kind || string(r.Value) != "value of "+string(r.Key) {
			s.Errorf("due is a %s with the value %q", r.Kind, r.Value)
		}
	}
	return due, next
}

// wantDue requires what is due, of all users except some, and when the next is.
func (s *seam) wantDue(next time.Time, want []string, except ...string) {
	s.Helper()
	due, at := s.due(store.ItemSchedule, plenty, except...)
	if !slices.Equal(due, want) || !at.Equal(next) {
		s.Errorf("Due except %q = %q, next %v, want %q, %v", except, due, at, want, next)
	}
}
