package workflow

import (
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// What one commit does of something that is done to many runs. It is in memory as a
// whole until it is durable, and other changes wait for it: of its user, or of all.
const (
	portionBytes = 4 << 20     // of payloads, steps and entries of the DLQ
	portionTime  = time.Second // by the clock of the machine
)

// portion is how much a transaction has done of that.
type portion struct {
	begun time.Time
	bytes int
}

func (p *portion) full() bool { return p.bytes >= portionBytes || time.Since(p.begun) >= portionTime }

// doEach does something with things in turn until the transaction has done enough: with
// the first of them at least. It returns those that are left for another one.
func doEach[T any](t *tx, things []T, do func(T) error) (left []T, err error) {
	for i, thing := range things {
		if i > 0 && t.full() {
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
		t.bytes += len(entry.Body)
	}
	return entries, err
}

// Buried is that of the store, and counts what it returns.
func (t *tx) Buried(id posthaste.DeadLetterID) (*posthaste.DeadLetter, *posthaste.Run, error) {
	letter, run, err := t.RunTx.Buried(id)
	if err == nil {
		t.bytes += store.DeadLetterSize(letter) + store.RunSize(run)
	}
	return letter, run, err
}
