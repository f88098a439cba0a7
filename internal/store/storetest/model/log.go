package model

import (
	"cmp"
	"context"
	"slices"

	"posthaste"
	"posthaste/internal/store"
)

// Events implements store.Log.
func (m *Model) Events(_ context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	var page store.EventPage
	err = m.do(func() error {
		log, room := slices.Clone(m.log), store.NewPageBudget(query.Bytes)
		if !query.OldestFirst {
			slices.Reverse(log)
		}
		for _, e := range log {
			position, message := e.event.Position, e.life.message
			if message.User != user || position < query.Low || position > query.High ||
				!query.Filter.MatchesEvent(&e.event, message) {
				continue
			}
			entry := store.NewEntry(e.event, message)
			if len(page.Entries) == query.Limit || !room.Take(entry.Size()) {
				page.More, page.Next = true, position
				return nil
			}
			page.Entries = append(page.Entries, entry)
			m.shown = max(m.shown, position)
		}
		return nil
	})
	if err != nil {
		return 0, false, err
	}
	return page.Visit(visit)
}

// Watch implements store.Store. The end counts as read: a crash must not take it
// back.
func (m *Model) Watch(context.Context, string) (end posthaste.Position, grown <-chan struct{}, err error) {
	err = m.do(func() error {
		end, grown = m.position, m.grown
		m.shown = max(m.shown, end)
		return nil
	})
	return end, grown, err
}

// LiveMessages implements store.Store. The cursor is the id of the next
// message.
func (m *Model) LiveMessages(_ context.Context, user string, query store.LiveQuery) (ids []posthaste.MessageID, cursor string, err error) {
	err = m.do(func() error {
		for _, l := range m.lives {
			if l.message.User == user && !l.state.Terminal() && !l.cancelRequested && query.Matches(l.message) &&
				l.message.ID.String() >= query.Cursor {
				ids = append(ids, l.message.ID)
			}
		}
		slices.SortFunc(ids, func(a, b posthaste.MessageID) int { return cmp.Compare(a.String(), b.String()) })
		if len(ids) > query.Limit {
			ids, cursor = ids[:query.Limit], ids[query.Limit].String()
		}
		return nil
	})
	return ids, cursor, err
}
