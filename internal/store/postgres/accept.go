package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// Accept implements store.Acceptor.
func (s *Store) Accept(ctx context.Context, now time.Time, submissions []store.Submission) ([]store.Accepted, error) {
	var users []string
	for _, submission := range submissions {
		for _, m := range submission.Messages {
			users = append(users, m.User)
		}
	}
	var accepted []store.Accepted
	err := s.call(ctx, now, users, func(tx *tx) error {
		for i := range submissions {
			answer, err := tx.submit(&submissions[i])
			if err != nil {
				return err
			}
			accepted = append(accepted, answer)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return accepted, nil
}

// submit accepts a submission unless it repeats one.
func (tx *tx) submit(s *store.Submission) (store.Accepted, error) {
	ids := s.IDs()
	if s.DedupKey != "" {
		user, key := s.Messages[0].User, hashed(s.DedupKey)
		earlier, err := tx.submitted(user, key)
		if err != nil || earlier != nil {
			return store.Accepted{IDs: earlier, Deduplicated: true}, err
		}
		tx.remember(user, key, ids)
	}
	return store.Accepted{IDs: ids}, tx.accept(s.Messages)
}

// submitted returns the ids of a submission with the key that is remembered.
func (tx *tx) submitted(user string, key []byte) (ids []posthaste.MessageID, err error) {
	stored, err := row(tx.ctx, tx, pgx.RowTo[[][16]byte], `
		SELECT ids FROM posthaste.submissions WHERE user_id = $1 AND key = $2 AND at > $3`,
		user, key, tx.now.Add(-store.DedupWindow).UnixMilli())
	for _, id := range stored {
		ids = append(ids, id)
	}
	return ids, except(err, store.ErrNotFound)
}

// remember keeps the ids of a submission, and forgets some that are out of the
// window: more than are added, so that few are kept in vain.
func (tx *tx) remember(user string, key []byte, ids []posthaste.MessageID) {
	tx.exec(`
		DELETE FROM posthaste.submissions WHERE (user_id, key) IN (
			SELECT user_id, key FROM posthaste.submissions WHERE user_id = $1 AND at <= $2 ORDER BY at LIMIT 4)`,
		user, tx.now.Add(-store.DedupWindow).UnixMilli())
	tx.exec(`
		INSERT INTO posthaste.submissions (user_id, key, at, ids) VALUES ($1, $2, $3, $4)
		ON CONFLICT (user_id, key) DO UPDATE SET at = excluded.at, ids = excluded.ids`,
		user, key, tx.now.UnixMilli(), uuids(ids))
}

func uuids(ids []posthaste.MessageID) [][16]byte {
	all := make([][16]byte, len(ids))
	for i, id := range ids {
		all[i] = id
	}
	return all
}

// accept stores new messages. A message makes the queue it names, and the key it
// names follows its limits.
func (tx *tx) accept(messages []*posthaste.Message) error {
	for _, m := range messages {
		position := tx.event(m.User, store.Created(m))
		envelope := record.AppendMessage(nil, m)
		tx.exec(`INSERT INTO posthaste.messages (user_id, id, record, state) VALUES ($1, $2, $3, $4)`,
			m.User, [16]byte(m.ID), envelope, int16(record.StateCode(posthaste.StateCreated)))
		tx.count(keptOf{m.User, keptLog, dayOf(position)}, 0, len(envelope))
		l := &live{
			user:  m.User,
			id:    m.ID,
			lane:  laneOf(m),
			place: posthaste.FirstPosition(m.NotBefore),
			dueMS: m.NotBefore.UnixMilli(),
			state: posthaste.StateCreated,
		}
		if l.lane.strict() {
			l.place = max(l.place, position)
			queues.add(tx, m.User, newQueue(m.Queue, tx.now))
		}
		if err := tx.follow(m, l); err != nil {
			return err
		}
		tx.insertLive(l)
		tx.touch(l.lane, 1)
	}
	return nil
}

// follow lets the flow-control key a message names follow its limits.
func (tx *tx) follow(m *posthaste.Message, l *live) error {
	if m.FlowControl.Key == "" {
		return nil
	}
	l.flowKey = []byte(m.FlowControl.Key)
	key, err := tx.flowKey(m.User, m.FlowControl.Key)
	if err != nil {
		return err
	}
	if key.CreatedAt.IsZero() {
		key.CreatedAt, key.dirty = tx.now, true
	}
	if key.Follow(m.FlowControl.FlowLimit) {
		key.dirty = true
		tx.touchHeldBy(m.User, l.flowKey)
	}
	return nil
}
