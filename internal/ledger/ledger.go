// Package ledger has the rules of delivery, once for all backends: what is accepted, what becomes of
// a message, and what belongs to queues, URL groups, schedules, flow-control keys, bulk actions,
// dead letters and runs.
package ledger

import "posthaste/internal/store"

// Ledger is a backend with the rules of delivery. It implements store.Store.
type Ledger struct {
	store.Backend
}

var _ store.Store = (*Ledger)(nil)

// New returns the ledger of a backend.
func New(backend store.Backend) *Ledger { return &Ledger{backend} }

// Over is New for the results of a function that opens a backend.
func Over[B store.Backend](backend B, err error) (*Ledger, error) {
	if err != nil {
		return nil, err
	}
	return New(backend), nil
}
