package postgres

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"posthaste"
)

// readLimits reads what limits the messages: the queues of the lanes, and the flow-control
// keys with their attempts in flight.
func (c *claiming) readLimits() error {
	queueOf, err := c.queueNames()
	if err != nil {
		return err
	}
	used := c.usedKeys()
	stored := map[name]*posthaste.Queue{}
	err = c.ask(func(batch *pgx.Batch) {
		c.readQueues(batch, queueOf, stored)
		c.prefetchFlowKeys(batch, slices.DeleteFunc(slices.Clone(used), func(of name) bool { return c.keys[of] != nil }))
		c.countInFlight(batch, used)
	})
	if err != nil {
		return err
	}
	for lane, of := range queueOf {
		if lane.queue = stored[of]; lane.queue == nil {
			lane.queue = newQueue(of.name, c.now) // it was deleted
		}
	}
	for _, lane := range c.lanes {
		for _, l := range slices.Concat(lane.begun, lane.waiting) {
			if l.flowKey != nil {
				lane.keys[string(l.flowKey)] = c.keys[name{l.user, string(l.flowKey)}]
			}
		}
	}
	return nil
}

// queueNames returns the queues of lanes. A long queue name is hashed in the lane, so it is
// read from a message.
func (c *claiming) queueNames() (map[*openLane]name, error) {
	queueOf := map[*openLane]name{}
	for _, lane := range c.lanes {
		if !lane.id.strict() {
			continue
		}
		queueOf[lane] = name{lane.id.user, lane.id.name}
		if inside := slices.Concat(lane.begun, lane.waiting); len(lane.id.name) == hashedLane && len(inside) > 0 {
			m, err := c.message(lane.id.user, inside[0].id)
			if err != nil {
				return nil, err
			}
			queueOf[lane] = name{m.User, m.Queue}
		}
	}
	return queueOf, nil
}

// readQueues reads queues. An unreadable one counts as paused.
func (c *claiming) readQueues(batch *pgx.Batch, queueOf map[*openLane]name, stored map[name]*posthaste.Queue) {
	if len(queueOf) == 0 {
		return
	}
	users, names := nameColumns(slices.Collect(maps.Values(queueOf)))
	batch.Queue(queues.byNames(), users, queues.kind, names).Query(func(found pgx.Rows) error {
		_, err := pgx.CollectRows(found, func(r pgx.CollectableRow) (*posthaste.Queue, error) {
			of, queue, damage, err := queues.scanNamed(r)
			if damage != nil {
				c.store.setAside.addDocument(damage, c.store.logger)
				queue = &posthaste.Queue{Name: of.name, Paused: true}
			}
			stored[of] = queue
			return queue, err
		})
		return err
	})
}

// usedKeys returns the flow-control keys of the messages.
func (c *claiming) usedKeys() []name {
	used := map[name]bool{}
	for _, lane := range c.lanes {
		for _, l := range slices.Concat(lane.begun, lane.waiting) {
			if l.flowKey != nil {
				used[name{l.user, string(l.flowKey)}] = true
			}
		}
	}
	return slices.Collect(maps.Keys(used))
}

// countInFlight counts the attempts under keys that were not counted in this transaction.
func (c *claiming) countInFlight(batch *pgx.Batch, used []name) {
	uncounted := slices.DeleteFunc(used, func(of name) bool { return c.keys[of].counted })
	if len(uncounted) == 0 {
		return
	}
	users, keys := nameColumns(uncounted)
	batch.Queue(`
		SELECT user_id, key, (
			SELECT count(*) FROM posthaste.live l WHERE l.user_id = k.user_id AND l.flow_key = k.key AND l.lease <> 0)
		FROM unnest($1::text[], $2::bytea[]) AS k (user_id, key)`, users, keys).Query(func(found pgx.Rows) error {
		var user string
		var text []byte
		var inFlight int
		_, err := pgx.ForEachRow(found, []any{&user, &text, &inFlight}, func() error {
			key := c.keys[name{user, string(text)}]
			key.inFlight, key.counted = inFlight, true
			return nil
		})
		return err
	})
}
