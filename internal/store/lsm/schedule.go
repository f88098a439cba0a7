package lsm

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

var schedules = documents[posthaste.Schedule]{
	kind:   kindSchedule,
	thing:  "schedule",
	encode: record.AppendSchedule,
	decode: record.DecodeSchedule,
}

var groups = documents[posthaste.URLGroup]{
	kind:   kindGroup,
	thing:  "URL group",
	encode: record.AppendURLGroup,
	decode: func(_, name string, data []byte) (*posthaste.URLGroup, error) {
		return record.DecodeURLGroup(name, data)
	},
}

// tickKey is where a schedule waits for its next tick, or nil if it does not.
func tickKey(schedule *posthaste.Schedule) []byte {
	if schedule == nil || schedule.Paused || schedule.NextAt.IsZero() {
		return nil
	}
	key := binary.BigEndian.AppendUint64([]byte{kindTick}, uint64(schedule.NextAt.UnixMilli()))
	return append(appendUser(key, schedule.User), schedule.ID...)
}

// parseTickKey splits the key under which a schedule waits for its next tick.
func parseTickKey(key []byte) (due time.Time, user, id string, err error) {
	const userAt = 1 + 8
	if len(key) < userAt {
		return time.Time{}, "", "", errCorrupt
	}
	user, tail, err := userKey(key[userAt:])
	return milliTime(int64(binary.BigEndian.Uint64(key[1:]))), user, string(tail), err
}

// saveSchedule replaces a schedule (nil: none) and moves its place among the
// ticks.
func (s *Store) saveSchedule(c *commit, before, after *posthaste.Schedule) {
	if key := tickKey(before); key != nil {
		c.deleteRecord(key)
	}
	schedules.save(c, after.User, after.ID, after)
	if key := tickKey(after); key != nil {
		c.setRecord(key, nil)
	}
}

// UpdateSchedule implements store.Schedules.
func (s *Store) UpdateSchedule(ctx context.Context, now time.Time, user, id string, change func(*posthaste.Schedule) error) error {
	return s.writer.do(ctx, func(c *commit) error {
		before, err := schedules.load(c, user, id)
		if err != nil {
			return err
		}
		after := posthaste.Schedule{ID: id, User: user}
		if before != nil {
			after = *before
		}
		if err := change(&after); err != nil {
			return err
		}
		if after.CreatedAt.IsZero() {
			after.CreatedAt = now
		}
		s.saveSchedule(c, before, &after)
		return nil
	})
}

// Schedule implements store.Schedules.
func (s *Store) Schedule(_ context.Context, user, id string) (*posthaste.Schedule, error) {
	return read(s, func() (*posthaste.Schedule, error) { return schedules.get(s.db, user, id) })
}

// Schedules implements store.Schedules.
func (s *Store) Schedules(_ context.Context, user, after string) (store.List[*posthaste.Schedule], error) {
	return read(s, func() (store.List[*posthaste.Schedule], error) { return schedules.part(s.db, user, after) })
}

// DeleteSchedule implements store.Schedules.
func (s *Store) DeleteSchedule(ctx context.Context, user, id string) error {
	return s.writer.do(ctx, func(c *commit) error {
		schedule, err := schedules.load(c, user, id)
		if err != nil || schedule == nil {
			return err
		}
		if key := tickKey(schedule); key != nil {
			c.deleteRecord(key)
		}
		schedules.remove(c, user, id)
		return nil
	})
}

// DueSchedules implements store.Schedules.
func (s *Store) DueSchedules(_ context.Context, now time.Time, limit int, except ...string) (due []*posthaste.Schedule, next time.Time, err error) {
	done, err := s.hold()
	if err != nil {
		return nil, time.Time{}, err
	}
	defer done()
	var damaged []error
	err = scan(s.db, []byte{kindTick}, func(key, _ []byte) error {
		at, user, id, err := parseTickKey(key)
		if err != nil {
			s.unreadable.add(key, err)
			return nil
		}
		if slices.Contains(except, user) {
			return nil
		}
		if at.After(now) || len(due) == limit {
			next = at
			return errEnough
		}
		key = schedules.key(user, id)
		err = get(s.db, key, func(data []byte) error {
			schedule, err := schedules.read(user, id, data)
			if err != nil {
				s.unreadable.add(key, err)
				damaged = append(damaged, err)
				return nil
			}
			due = append(due, schedule)
			return nil
		})
		if errors.Is(err, store.ErrNotFound) {
			return nil // deleted since the scan began
		}
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return due, next, errors.Join(append(damaged, err)...)
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
		if tickKey(stored) == nil || !stored.Equal(before) {
			return store.ErrConflict
		}
		tick, err := s.newMessages(c, messages)
		if err != nil {
			return err
		}
		s.accept(c, now, &tick)
		s.saveSchedule(c, stored, after)
		return nil
	})
}

// UpdateURLGroup implements store.URLGroups.
func (s *Store) UpdateURLGroup(ctx context.Context, now time.Time, user, name string, change func(*posthaste.URLGroup) error) error {
	return s.writer.do(ctx, func(c *commit) error {
		stored, err := groups.load(c, user, name)
		if err != nil {
			return err
		}
		group := posthaste.URLGroup{Name: name}
		if stored != nil {
			group = *stored
			group.Endpoints = append([]posthaste.Endpoint(nil), stored.Endpoints...)
		}
		if err := change(&group); err != nil {
			return err
		}
		if len(group.Endpoints) == 0 {
			groups.remove(c, user, name)
			return nil
		}
		if group.UpdatedAt = now; group.CreatedAt.IsZero() {
			group.CreatedAt = now
		}
		groups.save(c, user, name, &group)
		return nil
	})
}

// URLGroup implements store.URLGroups.
func (s *Store) URLGroup(_ context.Context, user, name string) (*posthaste.URLGroup, error) {
	return read(s, func() (*posthaste.URLGroup, error) { return groups.get(s.db, user, name) })
}

// URLGroups implements store.URLGroups.
func (s *Store) URLGroups(_ context.Context, user, after string) (store.List[*posthaste.URLGroup], error) {
	return read(s, func() (store.List[*posthaste.URLGroup], error) { return groups.part(s.db, user, after) })
}

// DeleteURLGroup implements store.URLGroups.
func (s *Store) DeleteURLGroup(ctx context.Context, user, name string) error {
	return s.writer.do(ctx, func(c *commit) error {
		groups.remove(c, user, name)
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
