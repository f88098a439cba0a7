package postgres

import (
	"crypto/sha256"
	"errors"
	"time"
)

// hashed is what a text of any length is found by. Hashes are those of the other backend,
// for of some texts nothing else is kept that could be copied.
func shortHash(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:16]
}

// milli is a time as it is stored, nil for none.
func milli(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}

// fromMilli is the time that milli stored.
func fromMilli(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms)
}

// except returns err unless it is the expected one.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
