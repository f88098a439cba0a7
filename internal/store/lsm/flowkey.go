package lsm

import (
	"context"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// A flow-control key is removed in three steps, because the store may have to look at many
// messages, and the writer must not wait for that. A commit clears the time of the key's last
// use; then the messages under the key are counted; then a commit removes the key if there
// are none and the time is still clear. A message that is accepted meanwhile sets the time,
// so its key stays. One caller at a time does so (Store.removingKeys): another one could clear
// the time again after a message has set it.

// DeleteFlowKey implements store.FlowKeys. It begins again if the key was used meanwhile.
func (s *Store) DeleteFlowKey(ctx context.Context, user, name string) error {
	s.removingKeys.Lock()
	defer s.removingKeys.Unlock()
	any := func(*posthaste.FlowKey) bool { return true }
	for {
		keys, err := s.clearUse(ctx, user, []string{name}, any)
		if err == nil && len(keys) == 0 {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		under, err := s.messagesUnder(user, keys)
		if err == nil {
			err = store.RefuseDeleteFlowKey(name, under[name])
		}
		if err != nil {
			return err
		}
		removed, err := s.removeUnused(ctx, user, keys, any)
		if removed > 0 || err != nil {
			return err
		}
	}
}

// trimFlowKeys removes keys that have been idle since a time and that no message needs.
func (s *Store) trimFlowKeys(ctx context.Context, user string, since time.Time) (removed int, err error) {
	idle, err := read(s, func() ([]string, error) { return s.idleFlowKeys(user, since) })
	if err != nil {
		return 0, err
	}
	if len(idle) == 0 {
		return 0, nil
	}
	s.removingKeys.Lock()
	defer s.removingKeys.Unlock()
	isIdle := func(key *posthaste.FlowKey) bool { return key.Idle(since) }
	for some := range slices.Chunk(idle, trimStep) {
		keys, err := s.clearUse(ctx, user, some, isIdle)
		if err != nil {
			return removed, err
		}
		under, err := s.messagesUnder(user, keys)
		if err != nil {
			return removed, err
		}
		needed := func(name string) bool { return under[name] > 0 }
		n, err := s.removeUnused(ctx, user, slices.DeleteFunc(keys, needed), isIdle)
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// idleFlowKeys returns the keys of a user that have been idle since a time. Keys that cannot
// be read are left out.
func (s *Store) idleFlowKeys(user string, since time.Time) (idle []string, err error) {
	prefix := flowKeys.key(user, "")
	err = scan(s.db, prefix, func(key, value []byte) error {
		name := string(key[len(prefix):])
		if k, err := flowKeys.read(user, name, value); err == nil && k.Idle(since) {
			idle = append(idle, name)
		}
		return nil
	})
	return idle, err
}

// clearUse clears the time of the last use of the named keys that exist and that the
// condition holds for, and returns them.
func (s *Store) clearUse(ctx context.Context, user string, names []string, condition func(*posthaste.FlowKey) bool) (cleared []string, err error) {
	err = s.writer.do(ctx, func(c *commit) error {
		keys, err := loadFlowKeys(c, user, names, condition)
		for _, key := range keys {
			cleared = append(cleared, key.Key)
			if !key.UsedAt.IsZero() {
				key.UsedAt = time.Time{}
				flowKeys.save(c, user, key.Key, &key)
			}
		}
		return err
	})
	return answer(&cleared, err)
}

// removeUnused removes those of the keys that nothing has used since clearUse and that the
// condition still holds for, and returns how many. An attempt that has ended meanwhile counts
// in the window of its key.
func (s *Store) removeUnused(ctx context.Context, user string, names []string, condition func(*posthaste.FlowKey) bool) (removed int, err error) {
	if len(names) == 0 {
		return 0, nil
	}
	err = s.writer.do(ctx, func(c *commit) error {
		keys, err := loadFlowKeys(c, user, names, func(key *posthaste.FlowKey) bool { return key.UsedAt.IsZero() && condition(key) })
		for _, key := range keys {
			flowKeys.remove(c, user, key.Key)
			c.after(func() { s.scheduler.forgetFlowKey(user, key.Key) })
		}
		removed = len(keys)
		return err
	})
	return answer(&removed, err)
}

// loadFlowKeys returns copies of the named keys that exist and that the condition holds for.
func loadFlowKeys(c *commit, user string, names []string, condition func(*posthaste.FlowKey) bool) (keys []posthaste.FlowKey, err error) {
	for _, name := range names {
		key, err := flowKeys.load(c, user, name)
		if err != nil {
			return nil, err
		}
		if key != nil && condition(key) {
			keys = append(keys, *key)
		}
	}
	return keys, nil
}

// messagesUnder counts the messages of a user that have not ended under each of some keys.
// Those in queues are in the lanes of these, so all queues are looked through.
func (s *Store) messagesUnder(user string, names []string) (map[string]int, error) {
	if len(names) == 0 {
		return nil, nil
	}
	return read(s, func() (map[string]int, error) {
		under := map[string]int{}
		for _, name := range names {
			under[name] = 0
			lane := laneID{user, posthaste.Lane{Kind: posthaste.LaneFlow, Name: name}}
			err := scan(s.db, appendLane(nil, lane), func(_, _ []byte) error {
				under[name]++
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		prefix := append(appendUser([]byte{kindWaiting}, user), byte(posthaste.LaneQueue))
		return under, scan(s.db, prefix, func(_, value []byte) error {
			w, err := parseWaiting(value)
			if _, asked := under[w.flowKey]; err == nil && asked && !w.ended {
				under[w.flowKey]++
			}
			return nil
		})
	})
}
