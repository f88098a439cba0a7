package lsm

import (
	"context"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

var schedules = documents[posthaste.Schedule]{
	kind:   kindSchedule,
	thing:  "schedule",
	encode: record.AppendSchedule,
	decode: record.DecodeSchedule,
}

// Tick implements store.Schedules.
func (s *Store) Tick(ctx context.Context, now time.Time, before, after *posthaste.Schedule, messages []*posthaste.Message) error {
	if err := s.reserve.check(); err != nil && len(messages) > 0 {
		return err
	}
	return s.writer.do(ctx, func(c *commit) error {
		stored, err := schedules.load(c, after.User, after.ID)
		if err != nil {
			return err
		}
		if stored == nil || index.Schedule(stored).DueAt.IsZero() || !stored.Equal(before) {
			return store.ErrConflict
		}
		tick, err := s.newMessages(c, messages)
		if err != nil {
			return err
		}
		s.accept(c, now, &tick)
		schedules.save(c, after.User, after.ID, after)
		moveDue(c, store.ItemSchedule, after.User, after.ID, index.Schedule(stored).DueAt, index.Schedule(after).DueAt)
		return nil
	})
}

// read runs a reader while the store is open.
func read[T any](s *Store, reader func() (T, error)) (_ T, err error) {
	done, err := s.reading()
	if err != nil {
		var none T
		return none, err
	}
	defer done(&err)
	return reader()
}
