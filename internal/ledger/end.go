package ledger

import (
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// claimed returns the place of a claimed message, or store.ErrLeaseLost for a claim that is not
// current.
func (tx *tx) claimed(claim store.Claim) (*store.Place, error) {
	place, err := tx.Place(claim.Message.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && (place.Lease == 0 || place.Lease != claim.Lease) {
		return nil, store.ErrLeaseLost
	}
	return place, err
}

// leave ends the claim of a message: it waits for its next attempt, or it has ended. In a queue it
// keeps its order.
func (tx *tx) leave(m *posthaste.Message, place *store.Place, state posthaste.State, next time.Time) error {
	place.State, place.Lease = state, 0
	if state != posthaste.StateRetry {
		return tx.end(m, place)
	}
	place.Retried++
	place.DueAt = next
	if m.Queue == "" {
		place.Order = posthaste.FirstPosition(next)
	}
	tx.Save(m, place)
	return nil
}

// end ends a message. In a queue it keeps its slot until its callbacks have ended.
func (tx *tx) end(m *posthaste.Message, place *store.Place) error {
	place.Lease, place.CancelRequested = 0, false
	place.Lingers = m.Queue != "" && place.Callbacks > 0
	tx.Save(m, place)
	return tx.callbackEnded(m)
}

// callbackEnded counts a callback of another message as ended. After the last one, the other gives
// up its slot.
func (tx *tx) callbackEnded(m *posthaste.Message) error {
	if m.SourceID.IsZero() {
		return nil
	}
	place, err := tx.Place(m.SourceID)
	if err != nil || place.Callbacks == 0 {
		return ignore(err, store.ErrNotFound)
	}
	source, err := tx.Message(m.SourceID)
	if err != nil {
		return err
	}
	place.Callbacks--
	place.Lingers = place.Lingers && place.Callbacks > 0
	tx.Save(source, place)
	return nil
}
