package postgres

import (
	"context"
	"encoding/base64"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// live is where a message stands that has not ended, or has but keeps its slot.
type live struct {
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
	flowKey         []byte
}

const liveColumns = `user_id, id, kind, lane, place, due, state, retried, begun, ended, callbacks, cancel_requested, lease, flow_key`

func scanLive(r pgx.CollectableRow) (*live, error) {
	l := &live{}
	var id [16]byte
	var place int64
	var state int16
	var lane []byte
	err := r.Scan(&l.user, &id, &l.lane.kind, &lane, &place, &l.dueMS, &state, &l.retried,
		&l.begun, &l.ended, &l.callbacks, &l.cancelRequested, &l.lease, &l.flowKey)
	if err != nil {
		return nil, err
	}
	l.id, l.place = id, posthaste.Position(place)
	l.lane.user, l.lane.name = l.user, string(lane)
	l.state, err = record.StateOf(uint8(state))
	return l, err
}

// waits reports whether the message waits for an attempt.
func (l *live) waits() bool { return l.lease == 0 && !l.ended }

// before reports whether a message comes before another in their lane.
func (l *live) before(o *live) bool {
	if l.place != o.place {
		return l.place < o.place
	}
	return string(l.id[:]) < string(o.id[:])
}

// holdsSlot reports whether the message has begun, as its lane understands that: in
// a queue it has until it ends, elsewhere while it is claimed.
func (l *live) holdsSlot() bool {
	return l.lease != 0 || l.lane.strict() && (l.retried > 0 || l.ended)
}

// lives reads the messages that a condition selects.
func (tx *tx) lives(condition string, args ...any) ([]*live, error) {
	return rows(tx.ctx, tx, scanLive, `SELECT `+liveColumns+` FROM posthaste.live WHERE `+condition+` ORDER BY user_id, id`, args...)
}

// life returns where a message stands that has not ended, or store.ErrNotFound.
func (tx *tx) life(user string, id posthaste.MessageID) (*live, error) {
	return row(tx.ctx, tx, scanLive, `SELECT `+liveColumns+` FROM posthaste.live WHERE user_id = $1 AND id = $2`, user, [16]byte(id))
}

// insertLive writes where a new message stands.
func (tx *tx) insertLive(l *live) {
	tx.exec(`
		INSERT INTO posthaste.live (`+liveColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		l.user, [16]byte(l.id), l.lane.kind, []byte(l.lane.name), int64(l.place), l.dueMS, int16(record.StateCode(l.state)),
		l.retried, l.begun, l.ended, l.callbacks, l.cancelRequested, l.lease, l.flowKey)
}

// saveLive writes where a message stands now. The node is that of its lease.
func (tx *tx) saveLive(l *live) {
	l.begun = l.holdsSlot()
	var node *int64
	if l.lease != 0 {
		id := tx.store.node.id.Load()
		node = &id
	}
	tx.exec(`
		UPDATE posthaste.live SET place = $3, due = $4, state = $5, retried = $6, begun = $7, ended = $8,
			callbacks = $9, cancel_requested = $10, lease = $11, node = $12
		WHERE user_id = $1 AND id = $2`,
		l.user, [16]byte(l.id), int64(l.place), l.dueMS, int16(record.StateCode(l.state)), l.retried, l.begun, l.ended,
		l.callbacks, l.cancelRequested, l.lease, node)
}

// requestCancel marks a claimed message, whose lease stays with the node it has.
func (tx *tx) requestCancel(l *live) {
	l.cancelRequested = true
	tx.exec(`UPDATE posthaste.live SET cancel_requested = true WHERE user_id = $1 AND id = $2`, l.user, [16]byte(l.id))
}

// end writes that a message has ended. One in a queue keeps its slot until its
// callbacks have ended, too.
func (tx *tx) end(m *posthaste.Message, l *live) error {
	tx.exec(`UPDATE posthaste.messages SET state = $3, retried = $4 WHERE user_id = $1 AND id = $2`,
		l.user, [16]byte(l.id), int16(record.StateCode(l.state)), l.retried)
	l.lease = 0
	if l.ended = l.callbacks > 0; l.ended {
		tx.saveLive(l)
	} else {
		tx.exec(`DELETE FROM posthaste.live WHERE user_id = $1 AND id = $2`, l.user, [16]byte(l.id))
	}
	tx.touch(l.lane, -1)
	tx.makeRoom(l)
	return tx.callbackEnded(m)
}

// callbackEnded counts the end of a message that is the callback of another: that
// one is a callback nearer to giving up its slot.
func (tx *tx) callbackEnded(m *posthaste.Message) error {
	if m.SourceID.IsZero() {
		return nil
	}
	source, err := tx.life(m.User, m.SourceID)
	if err != nil || source.callbacks == 0 {
		return except(err, store.ErrNotFound)
	}
	if source.callbacks--; source.ended && source.callbacks == 0 {
		tx.exec(`DELETE FROM posthaste.live WHERE user_id = $1 AND id = $2`, source.user, [16]byte(source.id))
		tx.touch(source.lane, 0)
		return nil
	}
	tx.exec(`UPDATE posthaste.live SET callbacks = $3 WHERE user_id = $1 AND id = $2`, source.user, [16]byte(source.id), source.callbacks)
	return nil
}

// maxLiveScan bounds how many waiting messages one call looks at.
const maxLiveScan = 5000

// LiveMessages implements store.LiveMessages. The cursor is the id to continue behind.
func (s *Store) LiveMessages(ctx context.Context, user string, query store.LiveQuery) (ids []posthaste.MessageID, cursor string, err error) {
	after, err := liveStart(query.Cursor)
	if err != nil {
		return nil, "", err
	}
	found, err := read(ctx, s, func(ctx context.Context, q querier) ([]*posthaste.Message, error) {
		return rows(ctx, q, scanMessageOf(user), `
			SELECT id, record FROM posthaste.live JOIN posthaste.messages USING (user_id, id)
			WHERE user_id = $1 AND id > $2 AND NOT ended AND NOT cancel_requested
			ORDER BY id LIMIT $3`, user, [16]byte(after), maxLiveScan)
	})
	if err != nil {
		return nil, "", err
	}
	for _, m := range found {
		if len(ids) == query.Limit {
			return ids, encodeCursor(ids[len(ids)-1]), nil
		}
		if query.Matches(m) {
			ids = append(ids, m.ID)
		}
	}
	if len(found) == maxLiveScan {
		cursor = encodeCursor(found[len(found)-1].ID)
	}
	return ids, cursor, nil
}

func encodeCursor(id posthaste.MessageID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

func liveStart(cursor string) (id posthaste.MessageID, err error) {
	if cursor == "" {
		return id, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(data) != len(id) {
		return id, posthaste.Invalidf("cursor %q is not one that this server made", cursor)
	}
	return posthaste.MessageID(data), nil
}

// Message implements store.Reader.
func (s *Store) Message(ctx context.Context, user string, id posthaste.MessageID) (store.Status, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (store.Status, error) { return readStatus(ctx, q, user, id) })
}

// readStatus reads a message and where it stands.
func readStatus(ctx context.Context, q querier, user string, id posthaste.MessageID) (store.Status, error) {
	return row(ctx, q, func(r pgx.CollectableRow) (store.Status, error) {
		var envelope []byte
		var code int16
		var status store.Status
		var lease, due *int64
		if err := r.Scan(&envelope, &code, &status.Retried, &lease, &due); err != nil {
			return store.Status{}, err
		}
		m, err := record.DecodeMessage(id, user, envelope)
		if err != nil {
			return store.Status{}, err
		}
		state, err := record.StateOf(uint8(code))
		status.Message, status.State = m, state
		switch {
		case lease == nil:
		case *lease != 0:
			status.State = posthaste.StateActive
		default:
			status.NextAttemptAt = time.UnixMilli(*due)
		}
		return status, err
	}, `
		SELECT record, coalesce(l.state, m.state), coalesce(l.retried, m.retried), l.lease, l.due
		FROM posthaste.messages m LEFT JOIN posthaste.live l ON l.user_id = m.user_id AND l.id = m.id AND NOT l.ended
		WHERE m.user_id = $1 AND m.id = $2`, user, [16]byte(id))
}

// scanMessageOf reads the messages of a user: id and record.
func scanMessageOf(user string) func(pgx.CollectableRow) (*posthaste.Message, error) {
	return func(r pgx.CollectableRow) (*posthaste.Message, error) {
		var id [16]byte
		var data []byte
		if err := r.Scan(&id, &data); err != nil {
			return nil, err
		}
		return record.DecodeMessage(id, user, data)
	}
}

// message reads an envelope.
func (tx *tx) message(user string, id posthaste.MessageID) (*posthaste.Message, error) {
	m, err := row(tx.ctx, tx, scanMessageOf(user), `SELECT id, record FROM posthaste.messages WHERE user_id = $1 AND id = $2`, user, [16]byte(id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, errors.Join(err, errors.New("its envelope is missing"))
	}
	return m, err
}
