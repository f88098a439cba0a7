package ledger

import (
	"context"
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Claim implements store.Store. Messages whose cancellation was requested end here.
func (l *Ledger) Claim(ctx context.Context, now time.Time, limit int) (claims []store.Claim, next time.Time, err error) {
	claims, next, err = l.Backend.Claim(ctx, now, limit)
	cancelled := 0
	for _, claim := range claims {
		if claim.CancelRequested {
			cancelled++
		}
	}
	if cancelled == 0 {
		return claims, next, err
	}
	left := make([]store.Claim, 0, len(claims)-cancelled)
	for _, claim := range claims {
		if claim.CancelRequested {
			err = errors.Join(err, l.drop(ctx, now, claim))
		} else {
			left = append(left, claim)
		}
	}
	return left, next, err
}

// drop cancels a claimed message without an attempt. If that fails, the claim is given back.
func (l *Ledger) drop(ctx context.Context, now time.Time, claim store.Claim) error {
	err := l.update(ctx, now, claim.Message.User, endHint(claim.Message).Hint, func(tx *tx) error {
		place, err := tx.claimed(claim)
		if err != nil {
			return err
		}
		return tx.endCancelled(claim.Message, place)
	})
	if err == nil {
		return nil
	}
	return errors.Join(ignore(err, store.ErrLeaseLost), l.Backend.Release(ctx, now, []store.Claim{claim}))
}

// Settle implements store.Store.
func (l *Ledger) Settle(ctx context.Context, now time.Time, settlement store.Settlement) (settled store.Settlement, err error) {
	m := settlement.Claim.Message
	hint := endHint(m)
	if m.Run != nil && settlement.UpdateRun != nil {
		hint.Records = append(hint.Records, runKey(m.Run.Position))
	}
	for _, callback := range settlement.Callbacks {
		hint.accept(callback.Message)
	}
	err = l.update(ctx, now, m.User, hint.Hint, func(tx *tx) error {
		place, err := tx.claimed(settlement.Claim)
		if err != nil {
			return err
		}
		settled = settlement.Resolve(place.CancelRequested)
		return tx.settle(m, place, &settled)
	})
	if errors.Is(err, store.ErrLeaseLost) {
		err = errors.Join(err, l.Backend.Release(ctx, now, []store.Claim{settlement.Claim})) // the backend forgets it
	}
	return settled, err
}

// endHint names what the end of a message reads.
func endHint(m *posthaste.Message) (h hint) {
	h.Places = append(h.Places, m.ID)
	if !m.SourceID.IsZero() {
		h.Places = append(h.Places, m.SourceID)
	}
	return h
}

// settle ends a claim. What it means for a run may change the settlement. A failed message of a run
// does not enter the DLQ of messages: its run enters that of runs.
func (tx *tx) settle(m *posthaste.Message, place *store.Place, settlement *store.Settlement) error {
	runs := newRunTx(tx)
	runs.settling = m.ID
	if settlement.UpdateRun != nil {
		if err := settlement.UpdateRun(runs, settlement); err != nil {
			return err
		}
	}
	var last posthaste.Position
	for _, event := range settlement.Events() {
		last = tx.Log(m, event)
	}
	failedAt := posthaste.DeadLetterID(last)
	if settlement.State == posthaste.StateFailed && m.Run == nil {
		tx.addToDLQ(&posthaste.DeadLetter{ID: failedAt, Message: m, Error: settlement.Error, Response: settlement.Response})
	}
	if m.Queue != "" {
		place.Callbacks += len(settlement.Callbacks)
	}
	for _, callback := range settlement.Callbacks {
		if err := tx.accept(callback.For(failedAt)); err != nil {
			return err
		}
	}
	if err := tx.leave(m, place, settlement.State, settlement.NextAt); err != nil {
		return err
	}
	return runs.finish()
}

// Release implements store.Store. The backend gives back the claims at once; those whose
// cancellation was requested end then, or with their next claim.
func (l *Ledger) Release(ctx context.Context, now time.Time, claims []store.Claim) error {
	if err := l.Backend.Release(ctx, now, claims); err != nil {
		return err
	}
	of := map[string][]posthaste.MessageID{}
	for _, claim := range claims {
		of[claim.Message.User] = append(of[claim.Message.User], claim.Message.ID)
	}
	for user, ids := range of {
		err := l.update(ctx, now, user, store.Hint{Places: ids}, func(tx *tx) error { return tx.endRequested(ids) })
		if err != nil {
			return err
		}
	}
	return nil
}

// endRequested ends those of some messages whose cancellation was requested and that are not
// claimed.
func (tx *tx) endRequested(ids []posthaste.MessageID) error {
	for _, id := range ids {
		place, err := tx.Place(id)
		if err != nil || !place.Waits() || !place.CancelRequested {
			if err = ignore(err, store.ErrNotFound); err != nil {
				return err
			}
			continue
		}
		m, err := tx.Message(id)
		if err != nil {
			return err
		}
		if err := tx.endCancelled(m, place); err != nil {
			return err
		}
	}
	return nil
}
