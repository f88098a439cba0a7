package postgres

import (
	"context"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Cancel implements store.Canceller.
func (s *Store) Cancel(ctx context.Context, now time.Time, user string, ids []posthaste.MessageID,
	step *store.Step,
) (changed []posthaste.MessageID, err error) {
	err = s.call(ctx, now, []string{user}, func(tx *tx) error {
		for _, id := range ids {
			ok, err := tx.cancelByID(user, id)
			if err != nil {
				return err
			}
			if ok {
				changed = append(changed, id)
			}
		}
		return tx.advance(user, step, len(changed), nil)
	})
	if err != nil {
		return nil, err
	}
	return changed, nil
}

// cancelByID cancels a message that belongs to no run.
func (tx *tx) cancelByID(user string, id posthaste.MessageID) (changed bool, err error) {
	l, err := tx.life(user, id)
	if err != nil {
		return false, except(err, store.ErrNotFound)
	}
	m, err := tx.message(user, id)
	if err != nil || m.Run != nil {
		return false, err
	}
	return tx.cancel(l)
}

// cancel asks for a cancellation, and grants it unless the message is claimed.
func (tx *tx) cancel(l *live) (changed bool, err error) {
	if l.ended || l.cancelRequested {
		return false, nil
	}
	tx.event(l.user, posthaste.Event{MessageID: l.id, State: posthaste.StateCancelRequested})
	if l.lease != 0 {
		tx.requestCancel(l)
		return true, nil
	}
	return true, tx.endCancelled(l)
}
