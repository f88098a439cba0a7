package lsm

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"posthaste/internal/store"
)

// drawUser draws short names of few letters, so that one is often the beginning of
// another.
func drawUser(t *rapid.T) string {
	return rapid.StringOfN(rapid.SampledFrom([]rune("ab\x00")), 0, 3, -1).Draw(t, "user")
}

func drawText(t *rapid.T) string {
	return rapid.OneOf(rapid.StringOfN(rapid.SampledFrom([]rune("ab\x00\x01")), 0, 4, -1), rapid.String()).Draw(t, "text")
}

func TestDueKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := tableOf(store.ItemWaiter)
		draw := func() (time.Time, []byte) {
			at := time.UnixMilli(rapid.Int64Range(0, 1<<47).Draw(t, "due"))
			return at, table.appendDue(nil, at, drawUser(t), []byte(drawText(t)))
		}
		a, keyA := draw()
		b, keyB := draw()
		at, user, tail, err := table.parseDue(keyA)
		if err != nil || !at.Equal(a) || !bytes.Equal(table.appendDue(nil, at, user, tail), keyA) {
			t.Fatalf("key %x is read as %v %q %x, %v", keyA, at, user, tail, err)
		}
		if a.Before(b) && bytes.Compare(keyA, keyB) >= 0 {
			t.Fatalf("keys of %v and %v are not in their order", a, b)
		}
	})
}

func FuzzParseDueKey(f *testing.F) {
	table := tableOf(store.ItemWaiter)
	f.Add(table.appendDue(nil, time.UnixMilli(1<<41), "ann", []byte("key")))
	f.Add([]byte{kindRun, runDeadline, 0, 0, 0, 0, 0, 0, 0, 0, 200})
	f.Fuzz(func(t *testing.T, key []byte) {
		if len(key) < len(table.due) {
			return
		}
		at, user, tail, err := table.parseDue(key)
		if err != nil {
			return
		}
		if again := table.appendDue(nil, at, user, tail); !bytes.Equal(again[len(table.due):], key[len(table.due):]) {
			t.Errorf("key %x is read as %v %q %x, which is another key", key, at, user, tail)
		}
	})
}
