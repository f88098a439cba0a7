package model

import (
	"context"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// DeadLetters implements store.DeadLetters.
func (m *Model) DeadLetters(_ context.Context, user string, query store.DeadLetterQuery) (page store.DeadLetterPage, err error) {
	err = m.do(func() error {
		all, room := slices.Clone(m.deadLetters), store.NewPageRoom(0)
		if !query.OldestFirst {
			slices.Reverse(all)
		}
		for _, d := range all {
			position := posthaste.Position(d.ID)
			if d.Message.User != user || position < query.Low || position > query.High || !query.Filter.Matches(d) {
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

// DeadLetter implements store.DeadLetters.
func (m *Model) DeadLetter(_ context.Context, user string, id posthaste.DeadLetterID) (d *posthaste.DeadLetter, err error) {
	err = m.do(func() error {
		at := m.findDeadLetter(user, id)
		if at < 0 {
			return store.ErrNotFound
		}
		d = m.deadLetters[at]
		return nil
	})
	return d, err
}

// DeleteDeadLetters implements store.DeadLetters.
func (m *Model) DeleteDeadLetters(_ context.Context, user string, ids []posthaste.DeadLetterID,
	step *store.Step,
) (deleted []posthaste.DeadLetterID, err error) {
	err = m.do(func() error {
		if err := m.checkStep(user, step); err != nil {
			return err
		}
		for _, id := range ids {
			if at := m.findDeadLetter(user, id); at >= 0 {
				m.deadLetters = slices.Delete(m.deadLetters, at, at+1)
				deleted = append(deleted, id)
			}
		}
		m.advance(user, step, len(deleted), nil)
		return nil
	})
	return deleted, err
}

// RetryDeadLetters implements store.DeadLetters.
func (m *Model) RetryDeadLetters(_ context.Context, now time.Time, user string, ids []posthaste.DeadLetterID,
	remake func(*posthaste.DeadLetter) (*posthaste.Message, error), step *store.Step,
) (results []store.Retried, err error) {
	err = m.change(func() error {
		if err := m.checkStep(user, step); err != nil {
			return err
		}
		var failures []posthaste.ActionFailure
		room := store.NewPageRoom(0)
		for _, id := range ids {
			at := m.findDeadLetter(user, id)
			if at < 0 {
				continue
			}
			if !room.Take(store.DeadLetterSize(m.deadLetters[at])) {
				break
			}
			message, err := remake(m.deadLetters[at])
			results = append(results, store.Retried{ID: id, Message: message, Err: err})
			if err != nil {
				failures = append(failures, posthaste.ActionFailure{ID: id.String(), Error: err.Error()})
				continue
			}
			m.deadLetters = slices.Delete(m.deadLetters, at, at+1)
			m.accept(now, []*posthaste.Message{message})
		}
		m.advance(user, step, len(results)-len(failures), failures)
		return nil
	})
	return results, err
}
