package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// claimWith claims from one user with other partitions locked, in whichever databases.
func (s *Store) claimWith(ctx context.Context, now time.Time, c *claiming, user string, others []string) error {
	users := append(others, user)
	c.countsAway = true
	if !slices.ContainsFunc(others, func(other string) bool { return !s.placement.has(other) }) {
		return s.change(ctx, now, users, prefetch{}, c.run)
	}
	d := s.placement.of
	var branches []*branch
	var decides *branch
	_ = eachOf(d, users, itself, func(in *Store, own []string) error {
		branches = append(branches, &branch{store: in, users: own})
		if in == s { // attempts must be seen before others get the locks of keys
			decides = branches[len(branches)-1]
		}
		return nil
	})
	return d.across(ctx, now, branches, decides, func(txOf func(string) *tx) error {
		c.away = map[string]*tx{}
		for _, other := range others {
			if !s.placement.has(other) {
				c.away[other] = txOf(other)
				c.away[other].writes++ // its lock must outlive this node
			}
		}
		return c.run(txOf(user))
	})
}

// elsewhere returns which other partitions must be locked for messages of one to start.
func (c *claiming) elsewhere(user string) (partitions []string) {
	for _, lane := range c.lanes {
		if lane.id.user == user {
			partitions = append(partitions, lane.elsewhere...)
		}
	}
	return partitions
}

// usedKeys returns the flow-control keys of the messages, but for those whose partitions are not locked.
func (c *claiming) usedKeys() []name {
	used := map[name]bool{}
	for _, lane := range c.lanes {
		for _, l := range lane.waiting {
			if l.flowKey == nil {
				continue
			}
			if of := c.keyOf(l); c.lockedKey(of) {
				used[of] = true
			}
		}
	}
	return slices.Collect(maps.Keys(used))
}

// lockedKey reports whether messages may start under a flow-control key: its partition is locked. In several
// databases its attempts are counted in all of them, which a claim for many users does not wait for.
func (c *claiming) lockedKey(of name) bool {
	return (c.locked(of.user) || c.away[of.user] != nil) && (c.countsAway || !c.store.placement.several())
}

// readKeysAway reads the flow-control keys of other databases.
func (c *claiming) readKeysAway(used []name) error {
	for _, of := range used {
		tx := c.away[of.user]
		if tx == nil {
			continue
		}
		r := flowKeyOf(of.user, of.name)
		value, err := tx.record(tx.ctx, tx, r)
		if ignore(err, store.ErrNotFound) != nil {
			return err
		}
		c.readCache.records[r] = &storedRecord{recordOf: r, value: value}
	}
	return nil
}

// saveKeysAway writes the flow-control keys of other databases that have changed.
func (c *claiming) saveKeysAway() {
	for of, key := range c.keys {
		if tx := c.away[of.user]; key.dirty && tx != nil {
			tx.putRecord(flowKeyOf(of.user, of.name), record.AppendFlowKey(nil, key.FlowKey), nil)
			key.dirty = false
		}
	}
}

// attemptsUnder counts attempts under flow-control keys.
const attemptsUnder = `
	SELECT user_id, key, (
		SELECT count(*) FROM posthaste.live l WHERE l.user_id = k.user_id AND l.flow_key = k.key AND l.lease <> 0)
	FROM unnest($1::text[], $2::bytea[]) AS k (user_id, key)`

// countInFlight counts the attempts under keys that were not counted in this transaction, in all
// partitions of this database. It returns those in others.
func (c *claiming) countInFlight(batch *pgx.Batch, used []name) (away []name) {
	uncounted := slices.DeleteFunc(slices.Clone(used), func(of name) bool { return c.keys[of] != nil && c.keys[of].counted })
	if len(uncounted) == 0 {
		return nil
	}
	var here []name
	for _, of := range uncounted {
		for _, partition := range c.divisionOf(of.user).All(store.UserOf(of.user)) {
			if spread := (name{partition, of.name}); c.store.placement.has(partition) {
				here = append(here, spread)
			} else {
				away = append(away, spread)
			}
		}
	}
	users, keys := nameColumns(here)
	batch.Queue(attemptsUnder, users, keys).Query(func(found pgx.Rows) error {
		for _, of := range uncounted {
			key := c.knownKey(of)
			key.inFlight, key.counted = 0, true
			key.apart, key.foreign = false, !c.store.placement.has(of.user)
		}
		return c.addInFlight(found)
	})
	return away
}

// addInFlight adds attempts that attemptsUnder has counted.
func (c *claiming) addInFlight(found pgx.Rows) error {
	var user string
	var text []byte
	var inFlight int
	_, err := pgx.ForEachRow(found, []any{&user, &text, &inFlight}, func() error {
		key := c.keys[name{c.divisionOf(user).KeyHome(user, string(text)), string(text)}]
		key.inFlight += inFlight
		key.apart = key.apart || inFlight > 0 && !c.locked(user)
		return nil
	})
	return err
}

// askerIn returns what asks another database: the transaction there, if there is one. Nobody waits for a connection
// of a pool, whose others may wait for this one.
func (c *claiming) askerIn(in *Store) querier {
	for _, tx := range c.away {
		if tx.store == in {
			return tx
		}
	}
	return in.control
}

// countAway counts attempts in other databases.
func (c *claiming) countAway(spread []name) error {
	if len(spread) == 0 {
		return nil
	}
	return eachOf(c.store.placement.of, spread, func(of name) string { return of.user }, func(in *Store, own []name) error {
		users, keys := nameColumns(own)
		_, err := read(c.ctx, in, func(ctx context.Context, _ querier) (struct{}, error) {
			found, err := c.askerIn(in).Query(ctx, attemptsUnder, users, keys)
			if err == nil {
				err = c.addInFlight(found)
			}
			return struct{}{}, err
		})
		return err
	})
}
