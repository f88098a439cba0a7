package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Once identifies a request against repetition. The zero value identifies
// nothing.
type Once struct {
	ID        string // explicit id; beats ByContent
	ByContent bool   // the content is the id
}

// PutScheduleOnce is PutSchedule for a request that may be a repetition: if it
// repeats one of the last store.DedupWindow it makes no schedule and returns the
// id of the one that was made then (contract, U-7). A request that names the id
// of its schedule repeats itself without harm, so it is not looked at.
func (e *Engine) PutScheduleOnce(ctx context.Context, schedule posthaste.Schedule, once Once) (id string, repeated bool, err error) {
	key := once.key(&schedule)
	if key == "" || schedule.ID != "" {
		id, err = e.PutSchedule(ctx, schedule)
		return id, false, err
	}
	now := e.now()
	for _, at := range []time.Time{now.Add(-store.DedupWindow), now} {
		earlier, err := e.options.Store.Schedule(ctx, schedule.User, scheduleIDOf(key, at))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return "", false, err
		}
		if err == nil && now.Sub(earlier.CreatedAt) < store.DedupWindow {
			return earlier.ID, true, nil
		}
	}
	schedule.ID = scheduleIDOf(key, now)
	id, err = e.PutSchedule(ctx, schedule)
	return id, false, err
}

// key returns what identifies the making of a schedule, "" if nothing does.
func (o Once) key(schedule *posthaste.Schedule) string {
	p := Publication{
		Destination:               schedule.Destination,
		Body:                      schedule.Body,
		DeduplicationID:           o.ID,
		ContentBasedDeduplication: o.ByContent,
		Settings:                  schedule.Settings,
	}
	key := p.dedupKey()
	if key != "" && o.ID == "" {
		key += "cron:" + schedule.Cron
	}
	return key
}

// scheduleIDOf makes the id of a schedule from what identifies its making and the
// window of time it falls in. So requests that race make the same schedule, and
// a repetition finds it under one of two ids.
func scheduleIDOf(key string, at time.Time) string {
	window := at.UnixMilli() / store.DedupWindow.Milliseconds()
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", window, key))
	return "scd_" + hex.EncodeToString(sum[:12])
}
