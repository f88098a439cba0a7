package ledger

import (
	"context"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Cancel implements store.Store.
func (l *Ledger) Cancel(ctx context.Context, now time.Time, user string, ids []posthaste.MessageID, step *store.Step) ([]posthaste.MessageID, error) {
	var changed []posthaste.MessageID
	err := l.update(ctx, now, user, store.Hint{Places: ids}, func(tx *tx) (err error) {
		if changed, err = tx.cancelAll(ids); err != nil {
			return err
		}
		return tx.advance(step, len(changed), nil)
	})
	if err != nil {
		return nil, err
	}
	return changed, nil
}

// cancelAll cancels messages that can be cancelled and belong to no run, with which they end. It
// returns the ones it changed.
func (tx *tx) cancelAll(ids []posthaste.MessageID) (changed []posthaste.MessageID, err error) {
	living, err := tx.cancellable(ids)
	if err != nil {
		return nil, err
	}
	for _, id := range living {
		m, err := tx.readable(id)
		if err != nil {
			return nil, err
		}
		if m == nil || m.Run != nil {
			continue
		}
		ok, err := tx.cancel(m, true)
		if err != nil {
			return nil, err
		}
		if ok {
			changed = append(changed, id)
		}
	}
	return changed, nil
}

// cancellable returns those of some messages that have not ended and whose cancellation was not
// requested, and fetches them.
func (tx *tx) cancellable(ids []posthaste.MessageID) ([]posthaste.MessageID, error) {
	var living []posthaste.MessageID
	for _, id := range ids {
		place, err := tx.Place(id)
		if err = ignore(err, store.ErrNotFound); err != nil {
			return nil, err
		}
		if place != nil && !place.State.Terminal() && !place.CancelRequested && !slices.Contains(living, id) {
			living = append(living, id)
		}
	}
	return living, tx.Fetch(store.Hint{Messages: living})
}

// cancel requests the cancellation of a message, and grants it unless the message is claimed. One
// that is claimed is left alone unless inFlight. It reports whether it changed anything.
func (tx *tx) cancel(m *posthaste.Message, inFlight bool) (bool, error) {
	place, err := tx.Place(m.ID)
	if err != nil {
		return false, ignore(err, store.ErrNotFound)
	}
	if place.State.Terminal() || place.CancelRequested || place.Lease != 0 && !inFlight {
		return false, nil
	}
	tx.Log(m, posthaste.Event{MessageID: m.ID, State: posthaste.StateCancelRequested})
	if place.Lease != 0 {
		place.CancelRequested = true
		tx.Save(m, place)
		return true, nil
	}
	return true, tx.endCancelled(m, place)
}

// endCancelled ends a message that is cancelled.
func (tx *tx) endCancelled(m *posthaste.Message, place *store.Place) error {
	tx.Log(m, posthaste.Event{MessageID: m.ID, State: posthaste.StateCancelled})
	place.State = posthaste.StateCancelled
	return tx.end(m, place)
}

// RunNow implements store.Store.
func (l *Ledger) RunNow(ctx context.Context, now time.Time, user string, id posthaste.MessageID) error {
	hint := store.Hint{Places: []posthaste.MessageID{id}, Messages: []posthaste.MessageID{id}}
	return l.update(ctx, now, user, hint, func(tx *tx) error {
		place, err := tx.Place(id)
		if err != nil {
			return err
		}
		if place.State.Terminal() {
			return store.ErrNotFound
		}
		m, err := tx.Message(id)
		if err != nil {
			return err
		}
		if err := store.RefuseRunNow(m, place.Lease != 0, place.CancelRequested); err != nil {
			return err
		}
		if !place.DueAt.After(now) {
			return nil
		}
		place.DueAt, place.Order = now, posthaste.FirstPosition(now)
		tx.Save(m, place)
		return nil
	})
}

// cancelledAtOnce bounds the messages that one commit of DeleteQueue cancels.
const cancelledAtOnce = 500

// DeleteQueue implements store.Store. It cancels in several commits, so that a long queue delays
// nobody, and removes the queue in the last one.
func (l *Ledger) DeleteQueue(ctx context.Context, now time.Time, user, name string) error {
	query := store.LiveQuery{Filter: posthaste.Filter{Queues: []string{name}}, Limit: cancelledAtOnce}
	for more := true; more; {
		ids, cursor, err := l.LiveMessages(ctx, user, query)
		if err != nil {
			return err
		}
		more, query.Cursor = cursor != "", cursor
		err = l.update(ctx, now, user, store.Hint{Places: ids, Records: []store.RecordKey{queues.key(name)}}, func(tx *tx) error {
			if _, err := tx.cancelAll(ids); err != nil || more {
				return err
			}
			queues.remove(tx, name, nil)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
