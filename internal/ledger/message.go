package ledger

import (
	"context"

	"posthaste"
	"posthaste/internal/store"
)

// Message implements store.Store.
func (l *Ledger) Message(ctx context.Context, user string, id posthaste.MessageID) (status store.Status, err error) {
	hint := store.Hint{Places: []posthaste.MessageID{id}, Messages: []posthaste.MessageID{id}}
	err = l.View(ctx, store.Scope{User: user, Hint: hint}, func(r store.Reader) error {
		place, err := r.Place(id)
		if err != nil {
			return err
		}
		m, err := r.Message(id)
		status = store.Status{Message: m, State: place.State, Retried: place.Retried}
		switch {
		case place.State.Terminal():
		case place.Lease != 0:
			status.State = posthaste.StateActive
		default:
			status.NextAttemptAt = place.DueAt
		}
		return err
	})
	if err != nil {
		return store.Status{}, err
	}
	return status, nil
}
