package postgres

import (
	"context"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

func (s *Store) Accept(ctx context.Context, now time.Time, submissions []store.Submission) ([]store.Accepted, error) {
	var users []string
	var w prefetch
	for i := range submissions {
		w.submission(&submissions[i])
		for _, m := range submissions[i].Messages {
			users = append(users, m.User)
		}
	}
	var accepted []store.Accepted
	err := s.callWith(ctx, now, users, w, func(tx *tx) error {
		accepted = make([]store.Accepted, len(submissions))
		for i := range submissions {
			var err error
			if accepted[i], err = tx.submit(&submissions[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return accepted, nil
}

// submission adds what accepting a submission needs.
func (w *prefetch) submission(s *store.Submission) {
	if s.DedupKey != "" {
		w.submissions = append(w.submissions, submissionName(s))
	}
	for _, m := range s.Messages {
		if m.FlowControl.Key != "" {
			w.records = append(w.records, flowKeyOf(m.User, m.FlowControl.Key))
		}
	}
}

func submissionName(s *store.Submission) name {
	return name{s.Messages[0].User, string(shortHash(s.DedupKey))}
}

// submit accepts a submission unless it is a duplicate.
func (tx *tx) submit(s *store.Submission) (store.Accepted, error) {
	ids := s.IDs()
	if s.DedupKey != "" {
		key := submissionName(s)
		earlier, known := tx.submissions[key]
		if known && !earlier.undelivered && earlier.at > tx.now.Add(-store.DedupWindow).UnixMilli() {
			return store.Accepted{IDs: earlier.ids, Deduplicated: true}, nil
		}
		tx.saveSubmission(key, ids)
	}
	return store.Accepted{IDs: ids}, tx.accept(s.Messages)
}

// saveSubmission stores the ids of a submission and deletes up to four that left the
// deduplication window, so that expired ones never pile up.
func (tx *tx) saveSubmission(key name, ids []posthaste.MessageID) {
	tx.submissions[key] = submission{at: tx.now.UnixMilli(), ids: ids}
	tx.exec(`
		DELETE FROM posthaste.submissions WHERE (user_id, key) IN (
			SELECT user_id, key FROM posthaste.submissions WHERE user_id = $1 AND at <= $2 ORDER BY at LIMIT 4)`,
		key.user, tx.now.Add(-store.DedupWindow).UnixMilli())
	tx.exec(`
		INSERT INTO posthaste.submissions (user_id, key, at, ids) VALUES ($1, $2, $3, $4)
		ON CONFLICT (user_id, key) DO UPDATE SET at = excluded.at, ids = excluded.ids`,
		key.user, []byte(key.name), tx.now.UnixMilli(), uuids(ids))
}

func uuids(ids []posthaste.MessageID) [][16]byte {
	return column(ids, func(id posthaste.MessageID) [16]byte { return id })
}

// accept stores new messages, and creates the queues and flow-control keys that they name.
func (tx *tx) accept(messages []*posthaste.Message) error {
	for _, m := range messages {
		position := tx.event(m, store.Created(m))
		envelope := record.AppendMessage(nil, m)
		tx.accepted = append(tx.accepted, newMessageRow(m, envelope))
		tx.addUsage(usageKey{m.User, usageLog, dayOf(position)}, 0, len(envelope))
		l := &liveMessage{
			user:  m.User,
			id:    m.ID,
			lane:  laneOf(m),
			place: posthaste.FirstPosition(m.NotBefore),
			dueMS: m.NotBefore.UnixMilli(),
			state: posthaste.StateCreated,
		}
		if l.lane.strict() {
			l.place = max(l.place, position)
			tx.ensureQueue(m.User, m.Queue)
		}
		if err := tx.follow(m, l); err != nil {
			return err
		}
		tx.lives[l.of()] = l
		tx.save(l)
		tx.touch(l.lane, 1)
	}
	return nil
}

// ensureQueue creates a queue unless it exists.
func (tx *tx) ensureQueue(user, queue string) {
	switch known := tx.readCache.records[recordOf{user, store.ItemQueue, queue}]; {
	case known == nil:
		tx.queues[name{user, queue}] = newQueue(queue, tx.now)
	case known.value == nil:
		queues.put(tx, user, newQueue(queue, tx.now))
	}
}

// follow applies the message's limits to its flow-control key.
func (tx *tx) follow(m *posthaste.Message, l *liveMessage) error {
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
	if key.Use(tx.now) {
		key.dirty = true
	}
	if key.Follow(m.FlowControl.FlowLimit) {
		key.dirty = true
		tx.wakeBlockedOn(m.User, m.FlowControl.Key)
	}
	return nil
}
