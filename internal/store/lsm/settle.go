package lsm

import (
	"errors"

	"posthaste"
	"posthaste/internal/store"
)

// callbackEnded returns what is to be written when a message with status st has
// ended that is the callback of another: the other is one callback nearer to
// giving up its slot.
func (s *Store) callbackEnded(c *commit, m *posthaste.Message, st status) (write func(), err error) {
	nothing := func() {}
	if m.SourceID.IsZero() || !st.state.Terminal() {
		return nothing, nil
	}
	source, err := c.status(m.User, m.SourceID)
	if errors.Is(err, store.ErrNotFound) || err == nil && source.callbacks == 0 {
		return nothing, nil
	}
	if err != nil {
		return nil, err
	}
	envelope, err := c.message(m.User, m.SourceID)
	if err != nil {
		return nil, err
	}
	return func() { s.countCallback(c, envelope) }, nil
}

// countCallback counts one callback of a source as ended. The source's status has
// been read before, and may have changed since: it may end in the same operation.
func (s *Store) countCallback(c *commit, source *posthaste.Message) {
	st, err := c.status(source.User, source.ID)
	if err != nil || st.callbacks == 0 {
		return
	}
	lane, place := laneOf(source), ticket{st.order, source.ID}
	st.callbacks--
	switch {
	case st.ended && st.callbacks == 0:
		st.ended = false
		c.delete(appendWaitingKey(c.key(), lane, place))
		c.after(func() { s.scheduler.drop(lane, place) })
	case st.ended || !st.state.Terminal():
		c.set(appendWaitingKey(c.key(), lane, place), st.waiting.append(nil))
	}
	c.setStatus(source, st)
}
