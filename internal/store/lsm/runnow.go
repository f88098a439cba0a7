package lsm

import (
	"context"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// RunNow implements store.Expediter.
func (s *Store) RunNow(ctx context.Context, now time.Time, user string, id posthaste.MessageID) error {
	return s.writer.do(ctx, func(c *commit) error {
		st, err := c.status(user, id)
		if err != nil {
			return err
		}
		if st.state.Terminal() {
			return store.ErrNotFound
		}
		m, err := c.message(user, id)
		if err != nil {
			return err
		}
		if err := store.RefuseRunNow(m, s.scheduler.attempted(id), st.cancelRequested); err != nil {
			return err
		}
		if st.readyMS <= now.UnixMilli() {
			return nil
		}
		before := ticket{st.order, id}
		lane := laneOf(m)
		if s.scheduler.hold(lane, before, false) { // claimed since
			return store.RefuseRunNow(m, true, false)
		}
		c.delete(appendWaitingKey(c.key(), lane, before))
		st.order, st.readyMS = posthaste.FirstPosition(now), now.UnixMilli()
		s.setWaiting(c, m, st)
		c.after(func() { s.scheduler.move(lane, before, newItem(m, st)) })
		return nil
	})
}
