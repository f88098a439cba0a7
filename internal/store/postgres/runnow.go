package postgres

import (
	"context"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// RunNow implements store.Expediter.
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
