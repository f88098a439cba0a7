package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// elsewhere ends a change, by a panic, that needs partitions which its transaction has not.
type elsewhere struct{ needed set }

func (e elsewhere) Error() string { return "partition: a change needs others" }

// Update implements store.Backend. It begins with the partitions that the hint names. A change that needs
// another is ended there, and made again with that, too: so rules need not know where things are. Before
// any is known the change is tried on nothing, which costs no transaction. If the user was divided
// meanwhile, the change is made again.
func (s *Store) Update(ctx context.Context, now time.Time, scope store.Scope, change func(store.Tx) error) error {
	for tries := 0; ; tries++ {
		d, err := s.below.DivisionOf(ctx, scope.User, tries > 0)
		if err != nil {
			return err
		}
		if err = s.update(ctx, now, d, scope, change); !errors.Is(err, store.ErrDivided) {
			return err
		}
		if tries == mostTries {
			return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
	}
}

// mostTries is how often a change is made again because its user was divided meanwhile.
const mostTries = 10

// update is Update for a user who is divided in a way.
func (s *Store) update(ctx context.Context, now time.Time, d store.Division, scope store.Scope, change func(store.Tx) error) error {
	if d.Whole() || scope.User == "" {
		scope.Partitions = d.Partitions
		return s.Backend.Update(ctx, now, scope, change)
	}
	in := named(d, scope.Hint)
	for {
		run := func(all []store.Tx) (err error) {
			defer func() {
				switch more := recover().(type) {
				case nil:
				case elsewhere:
					err = more
				default:
					panic(more)
				}
			}()
			return change(newTx(d, scope.User, in, all))
		}
		var err error
		if in == 0 {
			err = run(nil)
		} else {
			err = s.below.UpdateSeveral(ctx, now, scopesOf(d, scope, in), run)
		}
		more, ok := errors.AsType[elsewhere](err)
		switch {
		case ok:
			in |= more.needed
		case in == 0 && err == nil:
			in.add(0) // it needed nothing: whether the backend is there is still to be seen
		default:
			return err
		}
	}
}

// tx implements store.Tx over the transactions of some partitions.
type tx struct {
	reader
	txs  []store.Tx                                // by number
	owns map[*posthaste.Message]*posthaste.Message // as their partitions have them
}

func newTx(d store.Division, user string, in set, all []store.Tx) *tx {
	t := &tx{reader: newReader(d, user, in), owns: map[*posthaste.Message]*posthaste.Message{}}
	t.txs = make([]store.Tx, len(t.readers))
	i := 0
	for n := range in.each() {
		t.txs[n], t.readers[n] = all[i], all[i]
		i++
	}
	return t
}

// at returns the transaction on the partition with a slot.
func (t *tx) at(slot posthaste.Slot) store.Tx { return t.txs[t.number(slot)] }

// own returns a message as its partition has it.
func (t *tx) own(m *posthaste.Message) *posthaste.Message {
	if t.owns[m] == nil {
		t.owns[m] = of(t.division, m)
	}
	return t.owns[m]
}

// NextPosition implements store.Tx.
func (t *tx) NextPosition(slot posthaste.Slot) posthaste.Position {
	return t.at(slot).NextPosition(slot)
}

// Put implements store.Tx.
func (t *tx) Put(kind store.ItemKind, key, value []byte, was, is store.Found) {
	t.at(store.RecordKey{Kind: kind, Key: key}.Slot()).Put(kind, key, value, was, is)
}

// Delete implements store.Tx.
func (t *tx) Delete(kind store.ItemKind, key []byte, was store.Found) {
	t.at(store.RecordKey{Kind: kind, Key: key}.Slot()).Delete(kind, key, was)
}

// DeleteBefore implements store.Tx.
func (t *tx) DeleteBefore(kind store.ItemKind, before []byte) {
	t.needAll()
	for _, own := range t.txs {
		own.DeleteBefore(kind, before)
	}
}

// Count implements store.Tx.
func (t *tx) Count(of store.RecordKey, entries, bytes int) {
	t.at(of.Slot()).Count(of, entries, bytes)
}

// Log implements store.Tx.
func (t *tx) Log(m *posthaste.Message, event posthaste.Event) posthaste.Position {
	return t.at(m.ID.Slot()).Log(t.own(m), event)
}

// Accept implements store.Tx.
func (t *tx) Accept(m *posthaste.Message, place store.Place) {
	t.at(m.ID.Slot()).Accept(t.own(m), place)
}

// Save implements store.Tx.
func (t *tx) Save(m *posthaste.Message, place *store.Place) {
	t.at(m.ID.Slot()).Save(t.own(m), place)
}

// CheckSpace implements store.Tx. A change that needs nothing else needs no space.
func (t *tx) CheckSpace() error {
	for n := range t.in.each() {
		return t.txs[n].CheckSpace()
	}
	return nil
}
