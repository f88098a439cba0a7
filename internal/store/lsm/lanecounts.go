package lsm

import (
	"bytes"
	"errors"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm/lanes"
)

// LaneLengths implements store.Reader.
func (v *view) LaneLengths(of []posthaste.Lane) ([]int, error) {
	lengths := make([]int, len(of))
	for i, lane := range of {
		err := scan(v.store.db, appendLane(nil, lanes.ID{User: v.user, Lane: lane}), func(_, value []byte) error {
			if w, err := parseWaiting(value); err == nil && !w.Ended {
				lengths[i]++
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return lengths, nil
}

// countLanes counts what each lane has at this moment, and returns before that is done: there may be
// millions of messages, and only metrics need the numbers. A store without any is counted at once.
func (s *Store) countLanes(logger *slog.Logger) error {
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kindWaiting}, UpperBound: []byte{kindWaiting + 1}})
	if err != nil {
		return err
	}
	count := func() {
		defer close(s.counted)
		stored, whole := s.countIn(iter)
		if err := errors.Join(iter.Error(), iter.Close()); err != nil {
			logger.Warn("store.lanes_uncounted", "error", err)
		} else if whole {
			s.scheduler.Counted(stored)
		}
	}
	if iter.First() {
		go count()
	} else {
		count()
	}
	return nil
}

// countIn counts from where the iterator is to its end, unless the store is closed meanwhile.
func (s *Store) countIn(iter *pebble.Iterator) (stored map[lanes.ID]lanes.Length, whole bool) {
	stored = map[lanes.ID]lanes.Length{}
	var prefix []byte // of the lane
	var lane lanes.ID
	var length lanes.Length
	for valid := iter.Valid(); valid; valid = iter.Next() {
		select {
		case <-s.stop:
			return nil, false
		default:
		}
		if prefix == nil || !bytes.HasPrefix(iter.Key(), prefix) {
			next, _, ok := parseWaitingKey(iter.Key())
			if !ok {
				continue
			}
			stored[lane] = length
			lane, length, prefix = next, stored[next], appendLane(prefix[:0], next)
		}
		if waiting, err := parseWaiting(iter.Value()); err == nil {
			length[waiting.Class()]++
		}
	}
	stored[lane] = length
	return stored, true
}

// UnderKeys implements store.Reader. It counts messages in the lanes of the keys and in the queues of
// their user.
func (v *view) UnderKeys(keys []string, dueBy time.Time, atMost int) ([]store.KeyUse, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	s, user := v.store, v.user
	queued, err := s.queuedUnderKeys(dueBy, user, atMost)
	if err != nil {
		return nil, err
	}
	uses := make([]store.KeyUse, len(keys))
	for i, key := range keys {
		own, err := s.dueInLane(lanes.ID{User: user, Lane: posthaste.Lane{Kind: posthaste.LaneFlow, Name: key}}, dueBy, atMost)
		if err != nil {
			return nil, err
		}
		_, uses[i].InFlight, _ = s.scheduler.KeyUse(user, key)
		uses[i].Waiting = queued[key] + own - uses[i].InFlight
	}
	return uses, nil
}

// dueInLane counts the first messages of a lane that are due by a time, claimed ones too.
func (s *Store) dueInLane(lane lanes.ID, dueBy time.Time, atMost int) (due int, err error) {
	err = scan(s.db, appendLane(nil, lane), func(key, _ []byte) error {
		if due == atMost || parseSpot(key).Order > posthaste.LastPosition(dueBy) {
			return errEnough
		}
		due++
		return nil
	})
	return due, err
}

// queuedUnderKeys counts the due messages in a user's queues by flow-control key. It looks at up
// to limit of them. A message in a queue waits in the queue's lane, so it reads all queues.
func (s *Store) queuedUnderKeys(now time.Time, user string, limit int) (map[string]int, error) {
	due, seen := map[string]int{}, 0
	prefix := append(appendUser([]byte{kindWaiting}, user), byte(posthaste.LaneQueue))
	err := scan(s.db, prefix, func(_, value []byte) error {
		if seen++; seen > limit {
			return errEnough
		}
		if w, err := parseWaiting(value); err == nil && w.FlowKey != "" && !w.Ended && !time.UnixMilli(w.ReadyMS).After(now) {
			due[w.FlowKey]++
		}
		return nil
	})
	return due, err
}
