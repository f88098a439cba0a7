package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store/record"
)

// messages checks that each message either waits or has ended, and waits as its record says.
func (c *checker) messages() error {
	var m checkedMessage
	err := c.scan([]any{&m.user, &m.id, &m.data, &m.slot, &m.state}, func() {
		c.Messages++
		c.report(m.check(), "message %s of user %q", posthaste.MessageID(m.id), m.user)
	}, `
		SELECT user_id, id, m.record, l.ended, e.state FROM posthaste.messages m
		LEFT JOIN posthaste.live l USING (user_id, id) LEFT JOIN posthaste.ended e USING (user_id, id)`)
	if err != nil {
		return err
	}
	var user string
	var id [16]byte
	err = c.scan([]any{&user, &id}, func() {
		c.Add("message %s of user %q: it has ended, and its record is missing", posthaste.MessageID(id), user)
	}, `
		SELECT user_id, id FROM posthaste.ended e
		WHERE NOT EXISTS (SELECT FROM posthaste.messages m WHERE m.user_id = e.user_id AND m.id = e.id)`)
	if err != nil {
		return err
	}
	return c.each(c.waiting, `
		SELECT `+liveColumns+`, (SELECT record FROM posthaste.messages m WHERE m.user_id = l.user_id AND m.id = l.id),
			node <> 0 AND NOT EXISTS (SELECT FROM posthaste.nodes n WHERE n.node = l.node),
			node <> 0 AND EXISTS (SELECT FROM posthaste.nodes n WHERE n.node = l.node AND expires_at > clock_timestamp()),
			(SELECT max(position) FROM posthaste.users)
		FROM posthaste.live l`)
}

// nodes checks that no node is alive for longer than a lease.
func (c *checker) nodes() error {
	var number int64
	var until time.Time
	return c.scan([]any{&number, &until}, func() {
		c.Add("node %d: it counts as alive until %s; what it has claimed is not due again before that",
			number, until.UTC().Format(time.RFC3339))
	}, `SELECT node, expires_at FROM posthaste.nodes WHERE expires_at > clock_timestamp() + 2 * lease`)
}

// checkedMessage is a message and what other tables say of it.
type checkedMessage struct {
	user  string
	id    [16]byte
	data  []byte
	slot  *bool  // NULL: it has no place in a lane; true: it has ended, and keeps its slot
	state *int16 // how it ended; NULL: it has not
}

func (m *checkedMessage) check() error {
	if _, err := record.DecodeMessage(m.id, m.user, m.data); err != nil {
		return err
	}
	switch waits := m.slot != nil && !*m.slot; {
	case m.slot == nil && m.state == nil:
		return errors.New("it does not wait, and has not ended")
	case waits && m.state != nil:
		return errors.New("it waits, and has ended")
	case !waits && m.state == nil:
		return errors.New("it keeps its slot, and has not ended")
	case m.state == nil:
		return nil
	}
	state, err := record.StateOf(uint8(*m.state))
	if err == nil && !state.Terminal() {
		err = fmt.Errorf("it has ended as %s", state)
	}
	return err
}

// waiting checks a row of live.
func (c *checker) waiting(r pgx.CollectableRow) error {
	var data []byte
	var orphaned, alive bool
	var last int64
	l, err := readLive(r, nil, &data, &orphaned, &alive, &last)
	if l == nil {
		return err
	}
	c.Waiting++
	if err == nil {
		err = l.check(data)
	}
	if err == nil {
		err = c.inPlace(l.user, l.id.Slot())
	}
	if err == nil && orphaned {
		err = fmt.Errorf("it is claimed by node %d, which does not exist: it would never be due again", l.node)
	}
	if err == nil && alive {
		err = l.checkAge(data, posthaste.Position(last).Time())
	}
	c.report(err, "message %s of user %q", l.id, l.user)
	return nil
}

// No attempt takes longer than longestAttempt, whatever the settings; settleTime is ample for
// settling it.
const longestAttempt, settleTime = 24 * time.Hour, 10 * time.Minute

// checkAge returns an error if the message was claimed longer ago than any attempt takes,
// although its node is alive. The lease is the position of its ACTIVE event, so times of the
// log are compared with each other.
func (l *liveMessage) checkAge(data []byte, now time.Time) error {
	m, err := record.DecodeMessage(l.id, l.user, data)
	if err != nil {
		return nil // reported with the message
	}
	since := posthaste.Position(l.lease).Time()
	longest := cmp.Or(m.Timeout, longestAttempt)
	if now.Sub(since) <= longest+settleTime {
		return nil
	}
	return fmt.Errorf("node %d has claimed it since %s, longer than an attempt takes, so nobody works on it",
		l.node, since.UTC().Format(time.RFC3339))
}

// check returns what is wrong with a row whose message has a record, nil if that is missing.
func (l *liveMessage) check(data []byte) error {
	if data == nil {
		return errors.New("it waits, and its record is missing")
	}
	m, err := record.DecodeMessage(l.id, l.user, data)
	switch {
	case err != nil:
		return nil // reported with the message
	case laneOf(m) != l.lane:
		return errors.New("it waits in another lane than its own")
	case string(l.flowKey) != m.FlowControl.Key:
		return errors.New("it waits under another flow-control key than its own")
	case l.begun != l.holdsSlot():
		return fmt.Errorf("its begun flag is %t", l.begun)
	case l.ended != l.state.Terminal():
		return fmt.Errorf("it waits as %s", l.state)
	case l.ended && l.callbacks == 0:
		return errors.New("it has ended, and keeps its slot for no callback")
	case (l.lease == 0) != (l.node == 0):
		return fmt.Errorf("its lease %d is of node %d", l.lease, l.node)
	}
	return nil
}

// lanes checks the counts of lanes.
func (c *checker) lanes() error {
	err := c.reportRows(`lane %[3]q of kind %[2]d of user %[1]q: a message waits at %[4]d, before its front at %[5]d, and is not found`, `
		SELECT user_id, kind, lane, min(place), s.front FROM posthaste.lanes s JOIN posthaste.live l USING (user_id, kind, lane)
		WHERE NOT l.begun AND l.place < s.front GROUP BY user_id, kind, lane, s.front`)
	if err != nil {
		return err
	}
	return c.reportRows(`lane %[3]q of kind %[2]d of user %[1]q: it has %[5]d messages, %[7]d of them claimed and %[9]d waiting for a retry, and says %[4]d, %[6]d and %[8]d`, `
		SELECT user_id, kind, lane, coalesce(s.live, 0), coalesce(n.live, 0), coalesce(s.in_flight, 0), coalesce(n.in_flight, 0),
			coalesce(s.retrying, 0), coalesce(n.retrying, 0)
		FROM posthaste.lanes s FULL JOIN (
			SELECT user_id, kind, lane, count(*) FILTER (WHERE NOT ended) AS live, count(*) FILTER (WHERE lease <> 0) AS in_flight,
				count(*) FILTER (WHERE lease = 0 AND retried > 0 AND NOT ended) AS retrying
			FROM posthaste.live GROUP BY user_id, kind, lane) AS n USING (user_id, kind, lane)
		WHERE coalesce(s.live, 0) <> coalesce(n.live, 0) OR coalesce(s.in_flight, 0) <> coalesce(n.in_flight, 0)
			OR coalesce(s.retrying, 0) <> coalesce(n.retrying, 0)`)
}
