package ledger

import (
	"context"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Accept implements store.Store.
func (l *Ledger) Accept(ctx context.Context, now time.Time, submissions []store.Submission) ([]store.Accepted, error) {
	var accepted []store.Accepted
	hint := acceptHint(nil)
	for i := range submissions {
		hint.add(&submissions[i], now)
	}
	user := submissions[0].Messages[0].User
	err := l.update(ctx, now, user, hint.Hint, func(tx *tx) error {
		if err := tx.CheckSpace(); err != nil {
			return err
		}
		accepted = accepted[:0]
		for i := range submissions {
			result, err := tx.submit(&submissions[i])
			if err != nil {
				return err
			}
			accepted = append(accepted, result)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return accepted, nil
}

// submit accepts a submission unless it repeats another one.
func (tx *tx) submit(s *store.Submission) (store.Accepted, error) {
	ids := s.IDs()
	if s.DedupKey != "" {
		earlier, err := tx.earlier(s.DedupKey)
		if err != nil {
			return store.Accepted{}, err
		}
		if earlier != nil {
			return store.Accepted{IDs: earlier, Deduplicated: true}, nil
		}
		tx.remember(s.DedupKey, ids)
	}
	for _, m := range s.Messages {
		if err := tx.accept(m); err != nil {
			return store.Accepted{}, err
		}
	}
	return store.Accepted{IDs: ids}, nil
}

// accept stores a new message, and creates or changes the queue and the flow-control key that it
// names. In a queue messages keep the order in which they were accepted, if they are due.
func (tx *tx) accept(m *posthaste.Message) error {
	place := store.Place{
		State: posthaste.StateCreated,
		Order: posthaste.FirstPosition(m.NotBefore),
		DueAt: m.NotBefore,
	}
	if err := tx.createQueue(m.Queue); err != nil {
		return err
	}
	if err := tx.follow(&m.FlowControl); err != nil {
		return err
	}
	if at := tx.Log(m, store.Created(m)); m.Queue != "" {
		place.Order = max(place.Order, at)
	}
	tx.Accept(m, place)
	return nil
}

// createQueue creates the queue of a message unless it exists.
func (tx *tx) createQueue(name string) error {
	if name == "" {
		return nil
	}
	stored, err := queues.load(tx, name)
	if err != nil || stored != nil {
		return err
	}
	queues.save(tx, name, nil, &posthaste.Queue{
		Name: name, Parallelism: posthaste.DefaultParallelism, CreatedAt: tx.now, UpdatedAt: tx.now,
	})
	return nil
}

// follow applies the limits of a message to its flow-control key.
func (tx *tx) follow(limits *posthaste.FlowControl) error {
	if limits.Key == "" {
		return nil
	}
	stored, err := flowKeys.load(tx, limits.Key)
	if err != nil {
		return err
	}
	key := posthaste.FlowKey{Key: limits.Key, CreatedAt: tx.now}
	if stored != nil {
		key = *stored
	}
	if followed, used := key.Follow(limits.FlowLimit), key.Use(tx.now); followed || used {
		flowKeys.save(tx, limits.Key, stored, &key)
	}
	return nil
}

// hint names what transactions on messages are going to read.
type hint struct{ store.Hint }

func acceptHint(messages []*posthaste.Message) (h hint) {
	for _, m := range messages {
		h.accept(m)
	}
	return h
}

// add adds what accepting a submission reads.
func (h *hint) add(s *store.Submission, now time.Time) {
	if s.DedupKey != "" {
		h.Records = append(h.Records, submissions.keys(s.DedupKey, now)...)
	}
	for _, m := range s.Messages {
		h.accept(m)
	}
}

func (h *hint) accept(m *posthaste.Message) {
	h.Accepts = append(h.Accepts, m)
	if m.Queue != "" {
		h.Records = append(h.Records, queues.key(m.Queue))
	}
	if m.FlowControl.Key != "" {
		h.Records = append(h.Records, flowKeys.key(m.FlowControl.Key))
	}
}
