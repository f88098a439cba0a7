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
		if s.scheduler.hold(laneOf(m), before, false) { // claimed since
			return store.RefuseRunNow(m, true, false)
		}
		c.delete(appendWaitingKey(c.key(), laneOf(m), before))
		st.order, st.readyMS = posthaste.FirstPosition(now), now.UnixMilli()
		c.after(func() { s.scheduler.unhold(id) })
		s.wait(c, m, st)
		return nil
	})
}
