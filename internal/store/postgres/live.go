package postgres

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/flow"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// liveMessage is the row of a message that has not ended, or has ended and keeps its slot.
type liveMessage struct {
	user            string
	id              posthaste.MessageID
	lane            laneID
	place           posthaste.Position // in its lane
	dueMS           int64
	state           posthaste.State // CREATED or RETRY; how it ended if ended
	retried         int
	begun           bool // claimed, or holds a slot of its queue
	ended           bool // its callbacks have not
	callbacks       int  // that have not ended; counted in queues only
	cancelRequested bool
	lease           int64 // 0: not claimed
	node            int64 // that has the lease
	flowKey         []byte
	size            int    // of the delivery, in bytes; known to claims only
	record          []byte // of the message, unless it is large; known to claims only

	stored bool // the row exists
	gone   bool // to be deleted
	dirty  bool // to be written

	// As what it is counted in its lane.
	leased, retrying bool
	waitsAt          *posthaste.Position // the place where it waits there; nil: it does not
}

const liveColumns = `user_id, id, kind, lane, place, due, state, retried, begun, ended, callbacks, cancel_requested, lease, node, flow_key`

// scanLive reads a row, unless it is known.
func (c *readCache) scanLive(r pgx.CollectableRow) (*liveMessage, error) {
	return c.scanLiveAmong(r, nil)
}

// scanLiveAmong also reads the columns before and after.
func (c *readCache) scanLiveAmong(r pgx.CollectableRow, before []any, after ...any) (*liveMessage, error) {
	l, err := readLive(r, before, after...)
	if err != nil {
		return nil, err
	}
	if known := c.lives[l.of()]; known != nil {
		return known, nil
	}
	c.lives[l.of()] = l
	return l, nil
}

// readLive reads liveColumns and those before and after.
func readLive(r pgx.CollectableRow, before []any, after ...any) (*liveMessage, error) {
	l := &liveMessage{stored: true}
	var id [16]byte
	var place int64
	var state int16
	var lane []byte
	own := []any{
		&l.user, &id, &l.lane.kind, &lane, &place, &l.dueMS, &state, &l.retried,
		&l.begun, &l.ended, &l.callbacks, &l.cancelRequested, &l.lease, &l.node, &l.flowKey,
	}
	if err := r.Scan(slices.Concat(before, own, after)...); err != nil {
		return nil, err
	}
	l.id, l.place = id, posthaste.Position(place)
	l.lane.user, l.lane.name = l.user, string(lane)
	l.leased, l.retrying = l.lease != 0, l.waitsForRetry()
	if !l.begun {
		l.waitsAt = new(l.place)
	}
	var err error
	l.state, err = record.StateOf(uint8(state))
	return l, err
}

func (l *liveMessage) of() messageOf { return messageOf{l.user, l.id} }

// before is the order in a lane.
func (l *liveMessage) before(o *liveMessage) bool {
	if l.place != o.place {
		return l.place < o.place
	}
	return string(l.id[:]) < string(o.id[:])
}

// standing returns what a message that is not claimed has of the slots of its lane.
func (l *liveMessage) standing() flow.Standing {
	switch {
	case !l.lane.strict():
		return flow.NotBegun
	case l.ended:
		return flow.Lingers
	case l.retried > 0:
		return flow.Begun
	}
	return flow.NotBegun
}

// holdsSlot reports whether the message has begun: in a queue until it ends, elsewhere while
// it is claimed.
func (l *liveMessage) holdsSlot() bool { return l.lease != 0 || l.standing() != flow.NotBegun }

func (t *userTx) findLive(condition string, args ...any) ([]*liveMessage, error) {
	return rows(t.ctx, t, t.scanLive, `SELECT `+liveColumns+` FROM posthaste.live WHERE `+condition+` ORDER BY user_id, id`, args...)
}

// live returns the row of a message, or store.ErrNotFound.
func (t *userTx) live(user string, id posthaste.MessageID) (*liveMessage, error) {
	return t.liveOf(t.ctx, t, messageOf{user, id})
}

func (c *readCache) liveOf(ctx context.Context, q querier, of messageOf) (*liveMessage, error) {
	if l, known := c.lives[of]; known {
		if l == nil || l.gone {
			return nil, store.ErrNotFound
		}
		return l, nil
	}
	l, err := row(ctx, q, c.scanLive, `SELECT `+liveColumns+` FROM posthaste.live WHERE user_id = $1 AND id = $2`, of.user, [16]byte(of.id))
	if errors.Is(err, store.ErrNotFound) {
		c.lives[of] = nil
	}
	return l, err
}

// save queues the row to be written, and counts the message in its lane.
func (t *userTx) save(l *liveMessage) {
	t.writes++
	l.begun = l.holdsSlot()
	leased, retrying := l.lease != 0 && !l.gone, l.waitsForRetry()
	if leased != l.leased || retrying != l.retrying {
		t.count(l, difference(l.leased, leased), difference(l.retrying, retrying))
		l.leased, l.retrying = leased, retrying
	}
	switch waits := !l.begun && !l.gone; {
	case !waits:
		l.waitsAt = nil
	case l.waitsAt == nil || *l.waitsAt != l.place:
		l.waitsAt = new(l.place)
		t.waitsAt(l.lane, l.place)
	}
	if l.lease == 0 {
		l.node = 0
	}
	if !l.dirty {
		l.dirty = true
		t.changed = append(t.changed, l)
	}
}

// waitsForRetry reports whether the message is counted among those that do.
func (l *liveMessage) waitsForRetry() bool {
	return l.lease == 0 && l.retried > 0 && !l.ended && !l.gone
}

// difference is by how much the number of things that are so grows if one of them was, and is now.
func difference(was, is bool) int32 {
	switch {
	case is == was:
		return 0
	case is:
		return 1
	}
	return -1
}

func (t *userTx) remove(l *liveMessage) {
	l.gone = true
	t.save(l)
}

// maxLiveScan bounds the waiting messages that one call reads; maxPageBytes bounds their
// bytes.
const maxLiveScan = 5000

// liveSpot is a message's spot among those of its user, and the cursor of LiveMessages.
type liveSpot struct {
	Kind  int16 // of its lane
	Lane  []byte
	Place int64
	ID    [16]byte
}

// liveMessages selects messages between two spots. Those that have begun have indexes of their own:
// in queues, and elsewhere while they are claimed.
const liveMessages = `
	WITH found AS (
		(SELECT kind, lane, place, id FROM posthaste.live
			WHERE user_id = $1 AND NOT begun AND NOT cancel_requested
				AND (kind, lane, place, id) > ($2, $3, $4, $5) AND (kind, lane) <= ($6, $7)
			ORDER BY kind, lane, place, id LIMIT $8)
		UNION ALL (SELECT kind, lane, place, id FROM posthaste.live
			WHERE user_id = $1 AND begun AND kind = 113 AND NOT ended AND NOT cancel_requested AND lane >= $10
				AND (kind, lane, place, id) > ($2, $3, $4, $5) AND (kind, lane) <= ($6, $7)
			ORDER BY lane, place, id LIMIT $8)
		UNION ALL (SELECT kind, lane, place, id FROM posthaste.live
			WHERE user_id = $1 AND begun AND kind <> 113 AND node <> 0 AND NOT cancel_requested
				AND (kind, lane, place, id) > ($2, $3, $4, $5) AND (kind, lane) <= ($6, $7)
			ORDER BY kind, lane, place, id LIMIT $8)
		ORDER BY kind, lane, place, id LIMIT $8),
	sized AS (
		SELECT *, sum(octet_length(record)) OVER (ORDER BY kind, lane, place, id) - octet_length(record) AS before
		FROM (SELECT *, (SELECT record FROM posthaste.messages m WHERE m.user_id = $1 AND m.id = found.id) FROM found) AS read)
	SELECT kind, lane, place, id, record FROM sized WHERE coalesce(before, 0) < $9 ORDER BY kind, lane, place, id`

// LiveMessages implements store.Backend. It goes from lane to lane.
func (s *Store) LiveMessages(ctx context.Context, user string, query store.LiveQuery) (ids []posthaste.MessageID, cursor string, err error) {
	after, end := liveSpot{Lane: []byte{}}, liveSpot{Kind: math.MaxInt16, Lane: []byte{}}
	if queues := query.Filter.Queues; len(queues) == 1 {
		lane := queueLane(user, queues[0])
		end = liveSpot{Kind: lane.kind, Lane: []byte(lane.name)}
		after = liveSpot{Kind: lane.kind, Lane: end.Lane, Place: -1}
	}
	if query.Cursor != "" {
		if after, err = parseLiveCursor(query.Cursor); err != nil {
			return nil, "", err
		}
	}
	var queue []byte // of queues, the first one to look at
	if posthaste.LaneKind(after.Kind) == posthaste.LaneQueue {
		queue = after.Lane
	}
	var spots []liveSpot
	found, err := read(ctx, s, func(ctx context.Context, q querier) ([]storedMessage, error) {
		spots = nil
		return rows(ctx, q, func(r pgx.CollectableRow) (storedMessage, error) {
			var spot liveSpot
			var data []byte
			err := r.Scan(&spot.Kind, &spot.Lane, &spot.Place, &spot.ID, &data)
			spots = append(spots, spot)
			return decodeStored(messageOf{user, spot.ID}, data), err
		}, liveMessages, user, after.Kind, after.Lane, after.Place, after.ID, end.Kind, end.Lane, maxLiveScan, maxPageBytes, append([]byte{}, queue...))
	})
	if err != nil {
		return nil, "", err
	}
	s.setAside.add(unreadableOf(found), s.logger)
	size := 0
	for i, c := range found {
		if len(ids) == query.Limit {
			return ids, spots[i-1].cursor(), nil
		}
		if size += c.size; c.message != nil && query.Matches(c.message) {
			ids = append(ids, c.id)
		}
	}
	if len(found) == maxLiveScan || size >= maxPageBytes {
		cursor = spots[len(spots)-1].cursor()
	}
	return ids, cursor, nil
}

func (s *liveSpot) cursor() string {
	data := binary.BigEndian.AppendUint16(nil, uint16(s.Kind))
	data = append(binary.BigEndian.AppendUint64(data, uint64(s.Place)), s.ID[:]...)
	return base64.RawURLEncoding.EncodeToString(append(data, s.Lane...))
}

func parseLiveCursor(cursor string) (s liveSpot, err error) {
	const lane = 2 + 8 + 16
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil && len(data) == len(s.ID) {
		return liveSpot{Lane: []byte{}}, nil // of an older version, which had another order: begin again
	}
	if err != nil || len(data) < lane {
		return s, posthaste.Invalidf("cursor %q is not one that this server made", cursor)
	}
	s.Kind, s.Place, s.Lane = int16(binary.BigEndian.Uint16(data)), int64(binary.BigEndian.Uint64(data[2:])), data[lane:]
	copy(s.ID[:], data[10:])
	return s, nil
}

func (t *userTx) message(user string, id posthaste.MessageID) (*posthaste.Message, error) {
	found, err := t.envelopes([]messageOf{{user, id}})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

var errNoEnvelope = errors.New("its envelope is missing")

// envelopes returns the envelopes of messages in their order, or an unreadableError.
func (t *userTx) envelopes(of []messageOf) ([]*posthaste.Message, error) {
	unreadable := unreadableError{}
	if err := t.readMessages(t.ctx, t, of); err != nil && !errors.As(err, &unreadable) {
		return nil, err
	}
	all := make([]*posthaste.Message, len(of))
	for i, m := range of {
		if all[i] = t.messages[m]; all[i] == nil && unreadable[m] == nil {
			unreadable[m] = errNoEnvelope
		}
	}
	if len(unreadable) > 0 {
		return nil, unreadable
	}
	return all, nil
}

// readMessages reads the envelopes of messages that are not known yet. If some are unreadable,
// it reads the others and returns an unreadableError.
func (c *readCache) readMessages(ctx context.Context, q querier, of []messageOf) error {
	unread := unknown(of, c.messages)
	if len(unread) == 0 {
		return nil
	}
	users, ids := messageColumns(unread)
	found, err := rows(ctx, q, scanMessage, messagesByID, users, ids)
	if err != nil {
		return err
	}
	c.addMessages(unread, found)
	if unreadable := unreadableOf(found); len(unreadable) > 0 {
		return unreadable
	}
	return nil
}

// addMessages adds the messages that were found of those that were looked for. Unreadable
// ones stay unknown.
func (c *readCache) addMessages(of []messageOf, found []storedMessage) {
	for _, m := range of {
		c.messages[m] = nil
	}
	for _, m := range found {
		if c.messages[m.messageOf] = m.message; m.message == nil {
			delete(c.messages, m.messageOf)
		}
	}
}

// storedMessage is a message as it was read.
type storedMessage struct {
	messageOf
	size    int                // of the record; 0 if that was NULL
	message *posthaste.Message // nil if the record was NULL or unreadable
	damage  error              // why it is unreadable
}

// scanMessage reads user, id and record.
func scanMessage(r pgx.CollectableRow) (storedMessage, error) {
	var of messageOf
	var id [16]byte
	var data []byte
	err := r.Scan(&of.user, &id, &data)
	of.id = id
	return decodeStored(of, data), err
}

func decodeStored(of messageOf, data []byte) storedMessage {
	m := storedMessage{messageOf: of, size: len(data)}
	if data == nil {
		return m
	}
	if m.message, m.damage = record.DecodeMessage(of.id, of.user, data); m.damage != nil {
		m.message = nil
	}
	return m
}

func unreadableOf(messages []storedMessage) unreadableError {
	unreadable := unreadableError{}
	for _, m := range messages {
		if m.damage != nil {
			unreadable[m.messageOf] = m.damage
		}
	}
	return unreadable
}
