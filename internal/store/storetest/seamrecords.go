package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"posthaste"
	"posthaste/internal/store"
)

// oddKeys are keys that a backend could confuse, in order.
var oddKeys = []string{"\x00", "\x00\x00", "\x00\x01", "a", "a\x00", "a\x00b", "a\xff", "a\xff\xff", "b", "\xfe", "\xff", "\xff\x00", "\xff\xff"}

var seamRecordPromises = []seamPromise{
	{"a record is read until it is deleted", func(s *seam) {
		s.put(ann, store.ItemURLGroup, "g", "one")
		s.view(ann, func(r store.Reader) { s.wantValue(r, store.ItemURLGroup, "g", "one") })
		s.put(ann, store.ItemURLGroup, "g", "two")
		s.view(ann, func(r store.Reader) { s.wantValue(r, store.ItemURLGroup, "g", "two") })
		s.delete(ann, store.ItemURLGroup, "g")
		s.view(ann, func(r store.Reader) { s.wantNone(r, store.ItemURLGroup, "g") })
		s.delete(ann, store.ItemURLGroup, "g") // and again
	}},
	{"keys and values may have any bytes", func(s *seam) {
		s.update(ann, func(tx store.Tx) error {
			for _, key := range slices.Backward(oddKeys) {
				tx.Put(store.ItemURLGroup, []byte(key), []byte(key), store.Found{}, store.Found{})
			}
			tx.Put(store.ItemURLGroup, []byte("empty"), nil, store.Found{}, store.Found{})
			return nil
		})
		s.view(ann, func(r store.Reader) {
			for _, key := range oddKeys {
				s.wantValue(r, store.ItemURLGroup, key, key)
			}
			s.wantValue(r, store.ItemURLGroup, "empty", "")
			want := append(slices.Clone(oddKeys), "empty")
			slices.Sort(want)
			s.wantScan(r, "", "", plenty, want...)
			s.wantScan(r, "a", "", plenty, "a", "a\x00", "a\x00b", "a\xff", "a\xff\xff")
			s.wantScan(r, "a", "a", plenty, "a\x00", "a\x00b", "a\xff", "a\xff\xff")
			s.wantScan(r, "\xff", "\xff", plenty, "\xff\x00", "\xff\xff")
			s.wantScan(r, "", "\xff\xff", plenty)
			s.wantScan(r, "c", "", plenty)
		})
	}},
	{"a prefix ends where the next one begins, whatever its bytes", func(s *seam) {
		prefix := func(b int) string { return "run \xff" + string([]byte{byte(b)}) }
		s.update(ann, func(tx store.Tx) error {
			for b := range 256 {
				for _, entry := range []string{"\x00", "\xff"} {
					tx.Put(store.ItemURLGroup, []byte(prefix(b)+entry), nil, store.Found{}, store.Found{})
				}
			}
			return nil
		})
		s.view(ann, func(r store.Reader) {
			for b := range 256 {
				s.wantScan(r, prefix(b), "", plenty, prefix(b)+"\x00", prefix(b)+"\xff")
			}
			if got := len(s.scanAll(r, store.ItemURLGroup, []byte("run \xff"), nil, plenty)); got != 2*256 {
				s.Errorf("%d keys begin as all do, want %d", got, 2*256)
			}
		})
	}},
	{"users and kinds do not see each other", func(s *seam) {
		for i, user := range []string{ann, anna} {
			s.put(user, store.ItemURLGroup, "g", user)
			s.put(user, store.ItemSchedule, fmt.Sprint("s", i), user)
		}
		s.put("an", store.ItemURLGroup, "ng", "another")
		for i, user := range []string{ann, anna} {
			s.view(user, func(r store.Reader) {
				s.wantValue(r, store.ItemURLGroup, "g", user)
				s.wantNone(r, store.ItemURLGroup, fmt.Sprint("s", i))
				s.wantNone(r, store.ItemSchedule, fmt.Sprint("s", 1-i))
				s.wantScan(r, "", "", plenty, "g")
				if keys := s.scanAll(r, store.ItemSchedule, nil, nil, plenty); !slices.Equal(keys, []string{fmt.Sprint("s", i)}) {
					s.Errorf("schedules of %s: %q", user, keys)
				}
			})
		}
		s.delete(ann, store.ItemURLGroup, "g")
		s.view(anna, func(r store.Reader) { s.wantValue(r, store.ItemURLGroup, "g", anna) })
	}},
	{"what belongs to nobody is kept like the rest", func(s *seam) {
		s.put("", store.ItemSecret, "token", "value")
		s.view("", func(r store.Reader) { s.wantValue(r, store.ItemSecret, "token", "value") })
		s.view(ann, func(r store.Reader) { s.wantNone(r, store.ItemSecret, "token") })
		if total, err := s.Usage(s.Context(), ""); err != nil || len(total.Users) > 0 {
			s.Errorf("something is kept of %q, %v, want nobody", total.Users, err)
		}
	}},
	{"a change sees what it wrote", func(s *seam) {
		s.update(ann, func(tx store.Tx) error {
			for _, key := range []string{"b", "d", "f", "h"} {
				tx.Put(store.ItemURLGroup, []byte(key), []byte("stored"), store.Found{}, store.Found{})
			}
			return nil
		})
		s.update(ann, func(tx store.Tx) error {
			s.wantScan(tx, "", "", plenty, "b", "d", "f", "h")
			for _, key := range []string{"a", "e", "h", "i"} {
				tx.Put(store.ItemURLGroup, []byte(key), []byte("written"), store.Found{}, store.Found{})
			}
			tx.Delete(store.ItemURLGroup, []byte("d"), store.Found{})
			tx.Delete(store.ItemURLGroup, []byte("e"), store.Found{})
			tx.Delete(store.ItemURLGroup, []byte("f"), store.Found{})
			tx.Put(store.ItemURLGroup, []byte("f"), []byte("again"), store.Found{}, store.Found{})
			for key, want := range map[string]string{"a": "written", "b": "stored", "f": "again", "h": "written", "i": "written"} {
				s.wantValue(tx, store.ItemURLGroup, key, want)
			}
			s.wantNone(tx, store.ItemURLGroup, "d")
			s.wantNone(tx, store.ItemURLGroup, "e")
			s.wantScan(tx, "", "", plenty, "a", "b", "f", "h", "i")
			s.wantScan(tx, "", "b", plenty, "f", "h", "i")
			s.wantScan(tx, "", "c", 2, "f", "h")
			s.wantScan(tx, "i", "", 1, "i")
			return nil
		})
		s.view(ann, func(r store.Reader) { s.wantScan(r, "", "", plenty, "a", "b", "f", "h", "i") })
	}},
	{"a scan ends at its limit and says whether more follow", func(s *seam) {
		s.update(ann, func(tx store.Tx) error {
			for i := range 5 {
				tx.Put(store.ItemURLGroup, fmt.Appendf(nil, "k%d", i), []byte("v"), store.Found{}, store.Found{})
			}
			return nil
		})
		check := func(r store.Reader) {
			for limit := 1; limit <= 6; limit++ {
				var keys []string
				more, err := r.Scan(store.ItemURLGroup, []byte("k"), nil, limit, func(key, _ []byte) error {
					keys = append(keys, string(key))
					return nil
				})
				if err != nil || len(keys) != min(limit, 5) || more != (limit < 5) {
					s.Errorf("Scan with limit %d: %q, more %v, %v", limit, keys, more, err)
				}
				if all := s.scanAll(r, store.ItemURLGroup, []byte("k"), nil, limit); len(all) != 5 {
					s.Errorf("all parts of up to %d: %q", limit, all)
				}
			}
		}
		s.view(ann, check)
		s.update(ann, func(tx store.Tx) error {
			check(tx)
			return nil
		})
	}},
	{"an error of the visitor ends a scan", func(s *seam) {
		s.update(ann, func(tx store.Tx) error {
			for i := range 3 {
				tx.Put(store.ItemURLGroup, fmt.Appendf(nil, "k%d", i), []byte("v"), store.Found{}, store.Found{})
			}
			return nil
		})
		s.view(ann, func(r store.Reader) {
			visited := 0
			_, err := r.Scan(store.ItemURLGroup, nil, nil, plenty, func(_, _ []byte) error {
				if visited++; visited == 2 {
					return store.ErrStop
				}
				return nil
			})
			if !errors.Is(err, store.ErrStop) || visited != 2 {
				s.Errorf("Scan = %v after %d records, want ErrStop after 2", err, visited)
			}
		})
	}},
	{"a scan of large records is bounded in bytes", func(s *seam) {
		const n, size = 7, store.PageBytes / 4
		for i := range n {
			s.put(ann, store.ItemURLGroup, fmt.Sprint("k", i), string(bytes.Repeat([]byte{byte('0' + i)}, size)))
		}
		s.view(ann, func(r store.Reader) {
			taken := 0
			more, err := r.Scan(store.ItemURLGroup, nil, nil, plenty, func(_, value []byte) error {
				taken += len(value)
				return nil
			})
			if err != nil || !more || taken > store.PageBytes+2*size {
				s.Errorf("Scan visits %d bytes, more %v, %v", taken, more, err)
			}
			if keys := s.scanAll(r, store.ItemURLGroup, nil, nil, plenty); len(keys) != n {
				s.Errorf("all parts: %q, want %d records", keys, n)
			}
		})
		huge := string(bytes.Repeat([]byte("h"), store.PageBytes+1))
		s.put(anna, store.ItemURLGroup, "huge", huge)
		s.view(anna, func(r store.Reader) { s.wantScan(r, "", "", plenty, "huge") })
	}},
	{"many records in a row are deleted", func(s *seam) {
		const n = 300
		key := func(i int) []byte { return positionKey(posthaste.FirstPosition(s.now) + posthaste.Position(i)) }
		term := store.Found{Terms: []store.Term{{Field: 'u', Hash: 9}}}
		s.reachPosition(posthaste.FirstPosition(s.now) + n)
		s.update(ann, func(tx store.Tx) error {
			for i := range n {
				tx.Put(store.ItemDeadLetter, key(i), []byte("v"), store.Found{}, term)
			}
			return nil
		})
		left := func() (found []posthaste.Position) {
			for _, at := range s.findAll(ann, findQuery(func(q *store.FindQuery) { q.OldestFirst = true })) {
				found = append(found, at-posthaste.FirstPosition(s.now))
			}
			return found
		}
		s.update(ann, func(tx store.Tx) error {
			for i := 100; i < 200; i++ {
				tx.Delete(store.ItemDeadLetter, key(i), term)
			}
			tx.Put(store.ItemDeadLetter, key(150), []byte("again"), store.Found{}, term)
			if got := len(s.scanAll(tx, store.ItemDeadLetter, nil, nil, plenty)); got != n-99 {
				s.Errorf("the change sees %d records, want %d", got, n-99)
			}
			return nil
		})
		var want []posthaste.Position
		for i := range posthaste.Position(n) {
			if i < 100 || i == 150 || i >= 200 {
				want = append(want, i)
			}
		}
		if got := left(); !slices.Equal(got, want) {
			s.Errorf("left: %v", got)
		}
		byTerm := findQuery(func(q *store.FindQuery) { q.Terms, q.OldestFirst = [][]store.Term{term.Terms}, true })
		if got := s.findAll(ann, byTerm); len(got) != len(want) {
			s.Errorf("%d are found by their term, want %d", len(got), len(want))
		}
	}},
	{"records before a key are deleted", func(s *seam) {
		for _, user := range []string{ann, anna} {
			s.update(user, func(tx store.Tx) error {
				for _, key := range []string{"0001a", "0001b", "0002a", "0003a"} {
					tx.Put(store.ItemSubmission, []byte(key), []byte("v"), store.Found{}, store.Found{})
					tx.Put(store.ItemResponse, []byte(key), []byte("v"), store.Found{}, store.Found{})
				}
				return nil
			})
		}
		s.update(ann, func(tx store.Tx) error {
			tx.DeleteBefore(store.ItemSubmission, []byte("0002"))
			return nil
		})
		left := func(user string, kind store.ItemKind) (keys []string) {
			s.view(user, func(r store.Reader) { keys = s.scanAll(r, kind, nil, nil, plenty) })
			return keys
		}
		if got := left(ann, store.ItemSubmission); !slices.Equal(got, []string{"0002a", "0003a"}) {
			s.Errorf("left: %q", got)
		}
		if others := len(left(ann, store.ItemResponse)) + len(left(anna, store.ItemSubmission)); others != 8 {
			s.Errorf("%d of 8 records of another kind or user are left", others)
		}
		s.update(ann, func(tx store.Tx) error {
			tx.DeleteBefore(store.ItemSubmission, []byte("0009"))
			return nil
		})
		if got := left(ann, store.ItemSubmission); len(got) > 0 {
			s.Errorf("left in the end: %q", got)
		}
	}},
	{"a hint has no effect but speed", func(s *seam) {
		m := s.accept()
		unknown := s.message()
		s.put(ann, store.ItemURLGroup, "g", "value")
		hint := store.Hint{
			Records:  []store.RecordKey{{Kind: store.ItemURLGroup, Key: []byte("g")}, {Kind: store.ItemURLGroup, Key: []byte("none")}, {Kind: store.ItemFlowKey, Key: []byte("none")}},
			Places:   []posthaste.MessageID{m.ID, unknown.ID},
			Messages: []posthaste.MessageID{unknown.ID, m.ID},
		}
		check := func(r store.Reader) {
			for range 2 {
				s.wantValue(r, store.ItemURLGroup, "g", "value")
				s.wantNone(r, store.ItemURLGroup, "none")
				s.wantNone(r, store.ItemFlowKey, "none")
				if got, err := r.Message(m.ID); err != nil || got.URL != m.URL || got.User != ann || string(got.Body) != string(m.Body) {
					s.Errorf("Message = %+v, %v", got, err)
				}
				if place, err := r.Place(m.ID); err != nil || place.State != posthaste.StateCreated || !place.DueAt.Equal(m.NotBefore) {
					s.Errorf("Place = %+v, %v", place, err)
				}
				s.wantErr(store.ErrNotFound, errorOf(r.Message(unknown.ID)))
				s.wantErr(store.ErrNotFound, errorOf(r.Place(unknown.ID)))
				if err := r.Fetch(hint); err != nil {
					s.Errorf("Fetch: %v", err)
				}
			}
		}
		hinted := store.Scope{User: ann, Hint: hint}
		if err := s.View(s.Context(), hinted, func(r store.Reader) error { check(r); return nil }); err != nil {
			s.Errorf("View: %v", err)
		}
		err := s.Update(s.Context(), s.now, hinted, func(tx store.Tx) error {
			check(tx)
			tx.Delete(store.ItemURLGroup, []byte("g"), store.Found{})
			tx.Put(store.ItemURLGroup, []byte("none"), []byte("now"), store.Found{}, store.Found{})
			if err := tx.Fetch(hint); err != nil {
				return err
			}
			s.wantNone(tx, store.ItemURLGroup, "g")
			s.wantValue(tx, store.ItemURLGroup, "none", "now")
			return nil
		})
		if err != nil {
			s.Errorf("Update: %v", err)
		}
	}},
}
