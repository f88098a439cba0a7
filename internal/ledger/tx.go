package ledger

import (
	"context"
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// tx is a transaction on what belongs to a user.
type tx struct {
	store.Tx
	user string
	now  time.Time
}

// update is Backend.Update for the rules.
func (l *Ledger) update(ctx context.Context, now time.Time, user string, hint store.Hint, change func(*tx) error) error {
	return l.Update(ctx, now, store.Scope{User: user, Hint: hint}, func(t store.Tx) error {
		return change(&tx{t, user, now})
	})
}

// readable returns a message, nil if it cannot be read: bulk changes continue without it.
func (tx *tx) readable(id posthaste.MessageID) (*posthaste.Message, error) {
	m, err := tx.Message(id)
	if errors.Is(err, store.ErrUnreadable) {
		return nil, nil
	}
	return m, err
}

// ignore returns nil in place of an expected error.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
