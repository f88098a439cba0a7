package workflow

import (
	"posthaste"
	"posthaste/internal/store"
)

// doEach does something with things in turn until the transaction has done enough: with
// the first of them at least. It returns those that are left for another one.
func doEach[T any](t *tx, things []T, do func(T) error) (left []T, err error) {
	for i, thing := range things {
		if i > 0 && t.portion.Full() {
			return things[i:], nil
		}
		if err := do(thing); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Entries is that of the store, and counts what it returns.
func (t *tx) Entries(run posthaste.Position, count int) ([]posthaste.RunEntry, error) {
	entries, err := t.RunTx.Entries(run, count)
	for _, entry := range entries {
		t.portion.Take(len(entry.Body))
	}
	return entries, err
}

// DLQEntry is that of the store, and counts what it returns.
func (t *tx) DLQEntry(id posthaste.DeadLetterID) (*posthaste.DeadLetter, *posthaste.Run, error) {
	letter, run, err := t.RunTx.DLQEntry(id)
	if err == nil {
		t.portion.Take(store.DeadLetterSize(letter) + store.RunSize(run))
	}
	return letter, run, err
}
