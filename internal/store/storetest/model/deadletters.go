package model

import (
	"context"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// DeadLetters implements store.Store.
func (m *Model) DeadLetters(_ context.Context, user string, query store.DeadLetterQuery) (page store.DeadLetterPage, err error) {
	err = m.do(func() error {
		all, room := slices.Clone(m.deadLetters), store.NewPageBudget(0)
		if !query.OldestFirst {
			slices.Reverse(all)
		}
		for _, d := range all {
			position := posthaste.Position(d.ID)
			if d.Message.User != user || position < query.Low || position > query.High || !query.Filter.MatchesDeadLetter(d) {
				continue
			}
			if len(page.DeadLetters)+len(page.IDs) == query.Limit || !room.Take(store.DeadLetterSize(d)) {
				page.More, page.Next = true, position
				return nil
			}
			if query.Bare {
				page.IDs = append(page.IDs, d.ID)
			} else {
				page.DeadLetters = append(page.DeadLetters, d)
			}
		}
		return nil
	})
	return page, err
}

// findDeadLetter returns the index of a user's dead letter, or -1.
func (m *Model) findDeadLetter(user string, id posthaste.DeadLetterID) int {
	return slices.IndexFunc(m.deadLetters, func(d *posthaste.DeadLetter) bool {
		return d.Message.User == user && d.ID == id
	})
}

// DeadLetter implements store.Store.
func (m *Model) DeadLetter(_ context.Context, user string, id posthaste.DeadLetterID) (*posthaste.DeadLetter, error) {
	return ask(m, func() (*posthaste.DeadLetter, error) {
		if at := m.findDeadLetter(user, id); at >= 0 {
			return m.deadLetters[at], nil
		}
		return nil, store.ErrNotFound
	})
}

// DeleteDeadLetters implements store.Store.
func (m *Model) DeleteDeadLetters(_ context.Context, user string, ids []posthaste.DeadLetterID,
	step store.Progress,
) (deleted []posthaste.DeadLetterID, err error) {
	err = m.do(func() error {
		if err := m.checkStep(user, step.Step(ids)); err != nil {
			return err
		}
		batch, left := store.NewBatchLimit(), ids
		for ; len(left) > 0 && (len(deleted) == 0 || !batch.Full()); left = left[1:] {
			if at := m.findDeadLetter(user, left[0]); at >= 0 {
				batch.Take(store.DeadLetterSize(m.deadLetters[at]))
				m.deadLetters = slices.Delete(m.deadLetters, at, at+1)
				deleted = append(deleted, left[0])
			}
		}
		m.advance(user, step.Step(left), len(deleted), nil)
		return nil
	})
	return deleted, err
}

// RetryDeadLetters implements store.Store.
func (m *Model) RetryDeadLetters(_ context.Context, now time.Time, user string, ids []posthaste.DeadLetterID,
	remake func(*posthaste.DeadLetter) (*posthaste.Message, error), step store.Progress,
) (results []store.Retried, err error) {
	err = m.change(func() error {
		if err := m.checkStep(user, step.Step(ids)); err != nil {
			return err
		}
		batch, left := store.NewBatchLimit(), ids
		for ; len(left) > 0 && (len(results) == 0 || !batch.Full()); left = left[1:] {
			at := m.findDeadLetter(user, left[0])
			if at < 0 || slices.Contains(store.RetriedIDs(results), left[0]) {
				continue
			}
			batch.Take(store.DeadLetterSize(m.deadLetters[at]))
			message, err := remake(m.deadLetters[at])
			results = append(results, store.Retried{ID: left[0], Message: message, Err: err})
			if err != nil {
				continue
			}
			m.deadLetters = slices.Delete(m.deadLetters, at, at+1)
			m.accept(now, []*posthaste.Message{message})
		}
		failures := store.FailuresOf(results)
		m.advance(user, step.Step(left), len(results)-len(failures), failures)
		return nil
	})
	return results, err
}
