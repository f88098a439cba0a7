package model

import (
	"context"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// eventBytes is the estimate of an event's size.
const eventBytes = 100

// Usage implements store.Store. Of sizes it only knows those of bodies.
func (m *Model) Usage(_ context.Context, user string) (store.Usage, error) {
	meant := func(other string) bool { return user == "" || other == user }
	return ask(m, func() (u store.Usage, err error) {
		for _, l := range m.lives {
			if l.lease != 0 && meant(l.message.User) {
				u.InFlight++
			}
		}
		for _, e := range m.log {
			if meant(e.life.message.User) {
				logged(&u, e)
			}
		}
		for _, d := range m.deadLetters {
			if meant(d.Message.User) {
				add(&u.DeadLetters, d.FailedAt(), len(d.Message.Body))
			}
		}
		for _, b := range m.runDLQ {
			if meant(b.run.user) {
				add(&u.FailedRuns, b.FailedAt(), len(b.Message.Body))
			}
		}
		for id, x := range m.executions {
			if meant(id.user) {
				add(&u.Runs, id.at.Time(), x.size())
			}
		}
		if user == "" {
			u.Users = m.users()
		}
		return u, nil
	})
}

// logged counts an event, which is not older than those counted before.
func logged(u *store.Usage, e entry) {
	size := eventBytes
	if e.event.State == posthaste.StateCreated {
		size += len(e.life.message.Body)
	}
	at := e.event.Position.Time()
	start := at.UTC().Truncate(24 * time.Hour)
	if last := len(u.Days) - 1; last < 0 || !u.Days[last].Start.Equal(start) {
		u.Days = append(u.Days, store.DayUsage{Start: start})
	}
	add(&u.Days[len(u.Days)-1].KindUsage, at, size)
	add(&u.Log, at, size)
}

func add(k *store.KindUsage, at time.Time, size int) {
	k.Entries++
	k.Bytes += int64(size)
	if k.Oldest.IsZero() || at.Before(k.Oldest) {
		k.Oldest = at
	}
}

// size adds up the bodies of a run's list.
func (x *execution) size() (n int) {
	for _, e := range x.entries {
		n += len(e.Body)
	}
	return n
}

// Ping implements store.Store.
func (m *Model) Ping(context.Context) error {
	return m.do(func() error { return nil })
}

// Stats implements store.Store.
func (m *Model) Stats(_ context.Context, now time.Time) (store.Stats, error) {
	return ask(m, func() (stats store.Stats, err error) {
		stats.Waiting = map[store.Waiting]int{}
		lanes := map[laneOf][]*life{}
		for _, l := range m.lives {
			if l.lease != 0 {
				stats.InFlight++
			}
			if !l.state.Terminal() {
				lanes[l.lane()] = append(lanes[l.lane()], l)
			}
		}
		stats.Lanes = len(lanes)
		for lane, lives := range lanes {
			head, created, retry := m.head(lane, lives, now)
			stats.AddHead(&head, now, lane.user, lane.lane.Name)
			stats.AddWaiting(&head, now, created, retry)
		}
		return stats, nil
	})
}

// head describes a lane by its messages that have not ended, and counts those that wait.
func (m *Model) head(lane laneOf, lives []*life, now time.Time) (head store.LaneHead, created, retry int) {
	var next *life
	for _, l := range lives {
		switch {
		case l.lease != 0:
			continue
		case l.retried > 0:
			retry++
		default:
			created++
		}
		if begun := l.message.Queue != "" && l.retried > 0; !begun && (next == nil || l.compareInLane(next) < 0) {
			next = l
		}
	}
	if head.Queue = lane.lane.Kind == posthaste.LaneQueue; head.Queue {
		m.headOfQueue(&head, lane)
	}
	if next == nil {
		return head, created, retry
	}
	head.DueAt = next.dueAt
	if key := m.flowKeys.all[next.flowKey()]; key != nil {
		_, _, admits := windowOf(key).Admit(key.FlowLimit, now)
		head.KeyPaused, head.Rate = key.Paused, !admits
		head.KeyFull = key.Parallelism > 0 && m.attempts(next.flowKey()) >= key.Parallelism
	}
	return head, created, retry
}

func (m *Model) headOfQueue(head *store.LaneHead, lane laneOf) {
	slots := 0
	for _, l := range m.lives {
		if l.lane() == lane && m.holdsSlot(l) {
			slots++
		}
	}
	parallelism := posthaste.DefaultParallelism
	if queue := m.queues.all[name{lane.user, lane.lane.Name}]; queue != nil {
		head.QueuePaused, parallelism = queue.Paused, queue.Parallelism
	}
	head.QueueFull = slots >= parallelism
}

// TryLease implements store.Store: nobody else has the model.
func (m *Model) TryLease(context.Context, string, time.Duration) (bool, error) {
	return ask(m, func() (bool, error) { return true, nil })
}
