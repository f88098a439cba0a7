package postgres

import (
	"context"
	"slices"
	"time"

	"posthaste"
)

func newQueue(name string, now time.Time) *posthaste.Queue {
	return &posthaste.Queue{Name: name, Parallelism: posthaste.DefaultParallelism, CreatedAt: now, UpdatedAt: now}
}

func queueLane(user, name string) laneID {
	return laneOf(&posthaste.Message{User: user, Queue: name})
}

// cancelledAtOnce bounds the messages that one commit of DeleteQueue cancels.
const cancelledAtOnce = 500

// DeleteQueue implements store.Queues. It cancels in several commits, and removes the queue in
// the last.
func (s *Store) DeleteQueue(ctx context.Context, now time.Time, user, name string) error {
	lane := queueLane(user, name)
	for from := (&liveMessage{}); from != nil; {
		var last *liveMessage
		err := s.call(ctx, now, []string{user}, func(tx *tx) (err error) {
			last, err = tx.cancelInQueue(lane, from)
			if err == nil && last == nil {
				queues.remove(tx, user, name)
				tx.touch(lane, 0) // what is left obeys no queue any more
			}
			return err
		})
		if err != nil {
			return err
		}
		from = last
	}
	return nil
}

// cancelInQueue cancels all messages that have begun, which may have waited before, and the
// first that wait after another. It returns the last of these, nil if none waits.
func (tx *tx) cancelInQueue(lane laneID, from *liveMessage) (last *liveMessage, err error) {
	begun, err := tx.findLive(`user_id = $1 AND kind = 113 AND lane = $2 AND begun`, lane.user, []byte(lane.name))
	if err != nil {
		return nil, err
	}
	waiting, err := tx.waitingBehind(lane, from)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(begun, waiting)
	if err := tx.loadEnvelopes(all); err != nil {
		return nil, err
	}
	for _, l := range all {
		if _, err := tx.cancelUnlessRun(l); err != nil {
			return nil, err
		}
	}
	if len(waiting) > 0 {
		last = waiting[len(waiting)-1]
	}
	return last, nil
}

// waitingBehind reads the first messages that wait after another: cancelledAtOnce at most,
// within the byte limit.
func (tx *tx) waitingBehind(lane laneID, from *liveMessage) ([]*liveMessage, error) {
	return rows(tx.ctx, tx, tx.scanLive, `
		SELECT `+liveColumns+` FROM (
			SELECT w.*, sum(size) OVER (ORDER BY place, id) - size AS before FROM (
				SELECT `+liveColumns+`, octet_length(record) AS size FROM posthaste.live JOIN posthaste.messages USING (user_id, id)
				WHERE user_id = $1 AND kind = $2 AND lane = $3 AND NOT begun AND (place, id) > ($4, $5)
				ORDER BY place, id LIMIT $6) AS w) AS first
		WHERE before < $7 ORDER BY place, id`,
		lane.user, lane.kind, []byte(lane.name), int64(from.place), [16]byte(from.id), cancelledAtOnce, maxPageBytes)
}
