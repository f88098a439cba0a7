package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

func (s *Store) Cancel(ctx context.Context, now time.Time, user string, ids []posthaste.MessageID,
	step *store.Step,
) (changed []posthaste.MessageID, err error) {
	w := prefetch{live: column(ids, func(id posthaste.MessageID) messageOf { return messageOf{user, id} })}
	err = s.callWith(ctx, now, []string{user}, w, func(tx *tx) error {
		changed = nil
		if err := tx.loadEnvelopesIfLive(w.live); err != nil {
			return err
		}
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

// loadEnvelopesIfLive reads the envelopes of those messages that have not ended.
func (tx *tx) loadEnvelopesIfLive(of []messageOf) error {
	living := slices.DeleteFunc(slices.Clone(of), func(m messageOf) bool { return tx.lives[m] == nil })
	_, err := tx.envelopes(living)
	return tx.skipUnreadable(err)
}

// skipUnreadable sets unreadable messages aside and returns any other error: bulk changes go
// on without them.
func (tx *tx) skipUnreadable(err error) error {
	if unreadable, ok := errors.AsType[unreadableError](err); ok {
		tx.store.setAside.add(unreadable, tx.store.logger)
		return nil
	}
	return err
}

func (tx *tx) loadEnvelopes(lives []*liveMessage) error {
	_, err := tx.envelopes(column(lives, (*liveMessage).of))
	return tx.skipUnreadable(err)
}

// cancelByID cancels a message unless it belongs to a run.
func (tx *tx) cancelByID(user string, id posthaste.MessageID) (changed bool, err error) {
	l, err := tx.live(user, id)
	if err != nil {
		return false, ignore(err, store.ErrNotFound)
	}
	return tx.cancelUnlessRun(l)
}

// cancelUnlessRun cancels a message unless it belongs to a run, with which it ends.
func (tx *tx) cancelUnlessRun(l *liveMessage) (changed bool, err error) {
	m, err := tx.message(l.user, l.id)
	if err != nil || m.Run != nil {
		return false, tx.skipUnreadable(err)
	}
	return tx.cancel(l)
}

// cancel requests a cancellation, and grants it at once unless the message is claimed.
func (tx *tx) cancel(l *liveMessage) (changed bool, err error) {
	if l.ended || l.cancelRequested {
		return false, nil
	}
	m, err := tx.message(l.user, l.id)
	if err != nil {
		return false, tx.skipUnreadable(err)
	}
	tx.event(m, posthaste.Event{MessageID: l.id, State: posthaste.StateCancelRequested})
	if l.lease != 0 {
		l.cancelRequested = true
		tx.save(l)
		return true, nil
	}
	return true, tx.endCancelled(l)
}

func (s *Store) RunNow(ctx context.Context, now time.Time, user string, id posthaste.MessageID) error {
	w := prefetch{live: []messageOf{{user, id}}}
	return s.callWith(ctx, now, []string{user}, w, func(tx *tx) error {
		l, err := tx.live(user, id)
		if err != nil {
			return err
		}
		if l.ended {
			return store.ErrNotFound
		}
		m, err := tx.message(user, id)
		if err != nil {
			return err
		}
		if err := store.RefuseRunNow(m, l.lease != 0, l.cancelRequested); err != nil {
			return err
		}
		if l.dueMS <= tx.now.UnixMilli() {
			return nil
		}
		l.dueMS, l.place = tx.now.UnixMilli(), posthaste.FirstPosition(tx.now)
		tx.save(l)
		tx.touch(l.lane, 0)
		return nil
	})
}
