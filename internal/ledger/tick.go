package ledger

import (
	"context"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Tick implements store.Schedules.
func (l *Ledger) Tick(ctx context.Context, now time.Time, before, after *posthaste.Schedule, messages []*posthaste.Message) error {
	hint := acceptHint(messages)
	hint.Records = append(hint.Records, schedules.key(after.ID))
	return l.update(ctx, now, after.User, hint.Hint, func(tx *tx) error {
		if len(messages) > 0 {
			if err := tx.CheckSpace(); err != nil {
				return err
			}
		}
		stored, err := schedules.load(tx, after.ID)
		if err != nil {
			return err
		}
		if schedules.foundBy(stored).DueAt.IsZero() || !stored.Equal(before) {
			return store.ErrConflict
		}
		for _, m := range messages {
			if err := tx.accept(m); err != nil {
				return err
			}
		}
		schedules.save(tx, after.ID, stored, after)
		return nil
	})
}
