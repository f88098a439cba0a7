package partition

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// reader implements store.Reader over those of some partitions.
type reader struct {
	division store.Division
	user     string
	in       set
	readers  []store.Reader // by number; nil: not opened yet

	open  func(n int) (own store.Reader, end func(error) error) // in a View
	close func(error) error                                     // ends what was opened
}

func newReader(d store.Division, user string, in set) reader {
	return reader{division: d, user: user, in: in, readers: make([]store.Reader, d.Number(posthaste.Slots-1)+1), close: func(err error) error { return err }}
}

// own returns the reader of a partition that is there.
func (r *reader) own(n int) store.Reader {
	if r.readers[n] == nil {
		before := r.close
		own, end := r.open(n)
		r.readers[n], r.close = own, func(err error) error { return before(end(err)) }
	}
	return r.readers[n]
}

// each returns those of all partitions.
func (r *reader) each() iter.Seq[store.Reader] {
	return func(yield func(store.Reader) bool) {
		for n := range r.readers {
			if !yield(r.own(n)) {
				return
			}
		}
	}
}

// View implements store.Backend. A partition is opened when it is read: others need not be there.
func (s *Store) View(ctx context.Context, scope store.Scope, read func(store.Reader) error) (err error) {
	d, done, err := s.below.Reading(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	if d.Whole() || scope.User == "" {
		return s.Backend.View(ctx, scope, read)
	}
	all := d.All(scope.User)
	r := newReader(d, scope.User, first(len(all)))
	r.open = func(n int) (store.Reader, func(error) error) {
		return s.openView(ctx, store.Scope{User: all[n], Hint: hintOf(d, scope.Hint, n)})
	}
	defer func() { err = r.close(err) }()
	return read(&r)
}

// openView returns the reader of a partition. One that cannot be had returns why from each of its methods. It lasts
// until it is ended with what the whole View returns, of which its own View makes an error of the backend.
func (s *Store) openView(ctx context.Context, scope store.Scope) (own store.Reader, end func(error) error) {
	var result, err error
	next, stop := iter.Pull(func(yield func(store.Reader) bool) {
		err = s.Backend.View(ctx, scope, func(r store.Reader) error {
			yield(r)
			return result
		})
	})
	own, ok := next()
	if !ok {
		return failed{err}, func(of error) error { return of }
	}
	return own, func(of error) error {
		result = of
		stop()
		return err
	}
}

// failed is a reader that could not be had.
type failed struct{ err error }

func (f failed) Fetch(store.Hint) error                          { return f.err }
func (f failed) Get(store.ItemKind, []byte) ([]byte, error)      { return nil, f.err }
func (f failed) Place(posthaste.MessageID) (*store.Place, error) { return nil, f.err }
func (f failed) LaneLengths([]posthaste.Lane) ([]int, error)     { return nil, f.err }
func (f failed) Message(posthaste.MessageID) (*posthaste.Message, error) {
	return nil, f.err
}
func (f failed) Scan(store.ItemKind, []byte, []byte, int, func([]byte, []byte) error) (bool, error) {
	return false, f.err
}
func (f failed) Find(store.FindQuery, func(posthaste.Position, []byte) (bool, error)) (posthaste.Position, bool, error) {
	return 0, false, f.err
}
func (f failed) UnderKeys([]string, time.Time, int) ([]store.KeyUse, error) { return nil, f.err }

// need ends the change unless some partitions are there.
func (r *reader) need(some set) {
	if missing := some &^ r.in; missing != 0 {
		panic(elsewhere{missing})
	}
}

func (r *reader) needAll() { r.need(first(len(r.readers))) }

// number returns which partition has a slot, and is there.
func (r *reader) number(slot posthaste.Slot) int {
	n := r.division.Number(slot)
	r.need(1 << n)
	return n
}

// at returns the reader of the partition with a slot.
func (r *reader) at(slot posthaste.Slot) store.Reader { return r.own(r.number(slot)) }

// Fetch implements store.Reader.
func (r *reader) Fetch(hint store.Hint) error {
	if r.division.Growing {
		return nil
	}
	needed := named(r.division, hint)
	r.need(needed)
	for n := range needed.each() {
		if err := r.own(n).Fetch(hintOf(r.division, hint, n)); err != nil {
			return err
		}
	}
	return nil
}

// Get implements store.Reader.
func (r *reader) Get(kind store.ItemKind, key []byte) ([]byte, error) {
	slot := store.RecordKey{Kind: kind, Key: key}.Slot()
	if r.division.Growing {
		return anyOf(r.holding(slot), func(own store.Reader) ([]byte, error) { return own.Get(kind, key) })
	}
	return r.at(slot).Get(kind, key)
}

// holding returns the readers of all partitions that have had a slot, the first one first.
func (r *reader) holding(slot posthaste.Slot) (all []store.Reader) {
	for _, earlier := range slices.Backward(r.division.Earlier(slot)) {
		all = append(all, r.at(earlier))
	}
	return append(all, r.at(slot))
}

// anyOf returns what the first of some readers finds that finds anything.
func anyOf[T any](readers []store.Reader, look func(store.Reader) (T, error)) (value T, err error) {
	for _, r := range readers {
		if value, err = look(r); !errors.Is(err, store.ErrNotFound) {
			break
		}
	}
	return value, err
}

// Message implements store.Reader.
func (r *reader) Message(id posthaste.MessageID) (*posthaste.Message, error) {
	m, err := found(r, id, store.Reader.Message)
	return whole(m), err
}

// Place implements store.Reader.
func (r *reader) Place(id posthaste.MessageID) (*store.Place, error) {
	return found(r, id, store.Reader.Place)
}

// found looks for a message in its partition, then where it stayed if it had ended when the user was divided.
func found[T any](r *reader, id posthaste.MessageID, look func(store.Reader, posthaste.MessageID) (T, error)) (T, error) {
	own := func(r store.Reader) (T, error) { return look(r, id) }
	if r.division.Growing {
		return anyOf(r.holding(id.Slot()), own)
	}
	value, err := own(r.at(id.Slot()))
	for _, slot := range r.division.Earlier(id.Slot()) {
		if !errors.Is(err, store.ErrNotFound) {
			break
		}
		value, err = own(r.at(slot))
	}
	return value, err
}

// LaneLengths implements store.Reader. Lanes of hosts are in all partitions.
func (r *reader) LaneLengths(lanes []posthaste.Lane) ([]int, error) {
	r.needAll()
	lengths := make([]int, len(lanes))
	for own := range r.each() {
		some, err := own.LaneLengths(lanes)
		if err != nil {
			return nil, err
		}
		for i, n := range some {
			lengths[i] += n
		}
	}
	return lengths, nil
}

// UnderKeys implements store.Reader. Messages in queues may be in other partitions than their keys.
func (r *reader) UnderKeys(keys []string, dueBy time.Time, atMost int) ([]store.KeyUse, error) {
	r.needAll()
	uses := make([]store.KeyUse, len(keys))
	for own := range r.each() {
		some, err := own.UnderKeys(keys, dueBy, atMost)
		if err != nil {
			return nil, err
		}
		for i, use := range some {
			uses[i].InFlight += use.InFlight
			uses[i].Waiting += use.Waiting
		}
	}
	return uses, nil
}

// scanned is a record that a scan has found.
type scanned struct{ key, value []byte }

// Scan implements store.Reader. It merges what the partitions have, up to the first key beyond which one
// of them may have more.
func (r *reader) Scan(kind store.ItemKind, prefix, after []byte, limit int, visit func(key, value []byte) error) (more bool, err error) {
	slot, ok := slotOfPrefix(kind, prefix)
	if ok && !r.division.Growing {
		return r.at(slot).Scan(kind, prefix, after, limit, visit)
	}
	r.needAll()
	var all []scanned
	var known []byte // up to here all are known; nil: everywhere
	for own := range r.each() {
		more, err := own.Scan(kind, prefix, after, limit, func(key, value []byte) error {
			all = append(all, scanned{bytes.Clone(key), bytes.Clone(value)})
			return nil
		})
		if err != nil {
			return false, err
		}
		if last := len(all) - 1; more && (known == nil || bytes.Compare(all[last].key, known) < 0) {
			known = all[last].key
		}
	}
	slices.SortStableFunc(all, func(a, b scanned) int { return bytes.Compare(a.key, b.key) })
	all = slices.CompactFunc(all, func(a, b scanned) bool { return bytes.Equal(a.key, b.key) }) // one was moved meanwhile
	budget := store.NewPageBudget(0)
	for i, found := range all {
		if i == limit || known != nil && bytes.Compare(found.key, known) > 0 || !budget.Take(len(found.key)+len(found.value)) {
			return true, nil
		}
		if err := visit(found.key, found.value); err != nil {
			return false, err
		}
	}
	return known != nil, nil
}

// foundAt is a record that a search has found.
type foundAt struct {
	at    posthaste.Position
	value []byte
}

// Find implements store.Reader.
func (r *reader) Find(query store.FindQuery, visit func(posthaste.Position, []byte) (bool, error)) (next posthaste.Position, more bool, err error) {
	r.needAll()
	m := merged[foundAt]{oldestFirst: query.OldestFirst, at: func(f foundAt) posthaste.Position { return f.at }}
	for own := range r.each() {
		budget := store.NewPageBudget(0)
		next, more, err := own.Find(query, func(at posthaste.Position, value []byte) (bool, error) {
			if !budget.Take(len(value)) {
				return true, nil
			}
			m.items = append(m.items, foundAt{at, bytes.Clone(value)})
			return false, nil
		})
		if err != nil {
			return 0, false, err
		}
		m.ends(next, more)
	}
	return m.visit(func(f foundAt) (bool, error) { return visit(f.at, f.value) })
}
