package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// A waiter belongs to its run. Another record under its topic says where it is.

func waiterKey(run, at posthaste.Position) store.RecordKey {
	return store.RecordKey{Kind: store.ItemWaiter, Key: append(positionKey(run), positionKey(at)...)}
}

func foundWaiter(w *posthaste.Waiter) store.Found { return store.Found{DueAt: w.Deadline} }

func (tx *tx) putWaiter(w *posthaste.Waiter) {
	key := waiterKey(w.Run.Position, w.Position)
	tx.Put(key.Kind, key.Key, record.AppendWaiter(nil, w), store.Found{}, foundWaiter(w))
	tx.putRef(index.TopicRef(w))
}

func (tx *tx) removeWaiter(w *posthaste.Waiter) {
	key := waiterKey(w.Run.Position, w.Position)
	tx.Delete(key.Kind, key.Key, foundWaiter(w))
	tx.removeRef(index.TopicRef(w))
}

// waitersFor returns what waits for a topic, oldest first.
func waitersFor(r store.Reader, topic posthaste.Topic) ([]*posthaste.Waiter, error) {
	prefix := index.Topic(topic)
	var keys []store.RecordKey
	err := scanAll(r, store.ItemTopic, prefix, nil, -1, func(key, value []byte) error {
		at, err := positionOf(key[len(prefix):])
		if err != nil {
			return err
		}
		run, err := positionOf(value)
		keys = append(keys, waiterKey(run, at))
		return err
	})
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	if err := r.Fetch(store.Hint{Records: keys}); err != nil {
		return nil, err
	}
	var waiters []*posthaste.Waiter
	for _, key := range keys {
		data, err := r.Get(key.Kind, key.Key)
		if errors.Is(err, store.ErrNotFound) { // it has ended meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		w, err := decodeWaiter(key.Key, data)
		if err != nil {
			return nil, err
		}
		waiters = append(waiters, w)
	}
	return waiters, nil
}

// waitersOf returns a run's waiters, oldest first.
func waitersOf(r store.Reader, run posthaste.Position) (waiters []*posthaste.Waiter, err error) {
	err = scanAll(r, store.ItemWaiter, positionKey(run), nil, -1, func(key, value []byte) error {
		w, err := decodeWaiter(key, value)
		waiters = append(waiters, w)
		return err
	})
	return waiters, err
}

func decodeWaiter(key, value []byte) (*posthaste.Waiter, error) {
	due, err := parseWaiterKey(key)
	if err != nil {
		return nil, err
	}
	w, err := record.DecodeWaiter(due.Position, value)
	if err != nil {
		return nil, fmt.Errorf("waiter %x: %w", key, err)
	}
	return w, nil
}

// parseWaiterKey splits the key of a waiter.
func parseWaiterKey(key []byte) (w store.DueWaiter, err error) {
	if len(key) != 16 {
		return w, errDamaged
	}
	w.Run, _ = positionOf(key[:8])
	w.Position, _ = positionOf(key[8:])
	return w, nil
}

// EventWaiters implements store.Store.
func (l *Ledger) EventWaiters(ctx context.Context, user, eventID string) (waiters []*posthaste.Waiter, err error) {
	err = l.View(ctx, store.Scope{User: user}, func(r store.Reader) error {
		waiters, err = waitersFor(r, posthaste.EventTopic(eventID))
		return err
	})
	return waiters, err
}

// RunWaiters implements store.Store.
func (l *Ledger) RunWaiters(ctx context.Context, user string, at posthaste.Position) (waiters []*posthaste.Waiter, err error) {
	err = l.View(ctx, store.Scope{User: user}, func(r store.Reader) error {
		waiters, err = waitersOf(r, at)
		return err
	})
	return waiters, err
}

// DueWaiters implements store.Store.
func (l *Ledger) DueWaiters(ctx context.Context, now time.Time, limit int, except ...string) (due []store.DueWaiter, next time.Time, err error) {
	records, next, err := l.Due(ctx, store.ItemWaiter, now, limit, except...)
	for _, found := range records {
		w, damaged := parseWaiterKey(found.Key)
		w.User = found.User
		err = cmp.Or(err, damaged)
		due = append(due, w)
	}
	return due, next, err
}

func (r *runTx) Wait(w *posthaste.Waiter) {
	w.Position = r.NextPosition(w.Run.Position.Slot())
	r.tx.putWaiter(w)
}

func (r *runTx) Waiter(run, at posthaste.Position) (*posthaste.Waiter, error) {
	key := waiterKey(run, at)
	data, err := r.tx.Get(key.Kind, key.Key)
	if err != nil {
		return nil, err
	}
	return decodeWaiter(key.Key, data)
}

func (r *runTx) Waiters(topic posthaste.Topic) ([]*posthaste.Waiter, error) {
	return waitersFor(r.tx, topic)
}

func (r *runTx) RunWaiters(run posthaste.Position) ([]*posthaste.Waiter, error) {
	return waitersOf(r.tx, run)
}

func (r *runTx) EndWait(w *posthaste.Waiter) { r.tx.removeWaiter(w) }

// eventPrefix begins the keys of a run's events with an id, which end with their positions.
func eventPrefix(run posthaste.Position, eventID string) []byte {
	return append(positionKey(run), index.Event(eventID)...)
}

func (r *runTx) BufferEvent(run posthaste.Position, eventID string, body []byte) {
	key := append(eventPrefix(run, eventID), positionKey(r.NextPosition(run.Slot()))...)
	r.tx.Put(store.ItemRunEvent, key, body, store.Found{}, store.Found{})
}

func (r *runTx) TakeEvent(run posthaste.Position, eventID string) (body []byte, ok bool, err error) {
	var first []byte
	err = scanAll(r.tx, store.ItemRunEvent, eventPrefix(run, eventID), nil, 1, func(key, value []byte) error {
		first, body = slices.Clone(key), slices.Clone(value)
		return nil
	})
	if err != nil || first == nil {
		return nil, false, err
	}
	r.tx.Delete(store.ItemRunEvent, first, store.Found{})
	return body, true, nil
}

func (r *runTx) DropEvents(run posthaste.Position) error {
	_, err := r.tx.removeAll(store.ItemRunEvent, positionKey(run))
	return err
}

func (r *runTx) MoveEvents(from, to posthaste.Position) error {
	type event struct{ key, body []byte }
	var events []event
	err := scanAll(r.tx, store.ItemRunEvent, positionKey(from), nil, -1, func(key, value []byte) error {
		events = append(events, event{slices.Clone(key), slices.Clone(value)})
		return nil
	})
	for _, e := range events {
		r.tx.Delete(store.ItemRunEvent, e.key, store.Found{})
		r.tx.Put(store.ItemRunEvent, append(positionKey(to), e.key[8:]...), e.body, store.Found{}, store.Found{})
	}
	return err
}
