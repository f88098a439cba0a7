package postgres

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
)

// A value of another field has another column, and the columns of messages are in the order of
// their terms.
func TestTermColumns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hash := rapid.Uint64Max(1<<56-1).Draw(t, "hash")
		fields := rapid.SliceOfNDistinct(rapid.ByteMax(127), 2, 2, rapid.ID[byte]).Draw(t, "fields")
		if a, b := termColumn(store.Term{Field: fields[0], Hash: hash}), termColumn(store.Term{Field: fields[1], Hash: hash}); a == b || a < 0 {
			t.Fatalf("hash %x is stored as %x in field %d and as %x in field %d", hash, a, fields[0], b, fields[1])
		}
		id := func() (id posthaste.MessageID) {
			copy(id[1:], rapid.SliceOfN(rapid.Byte(), 15, 15).Draw(t, "id"))
			return id
		}
		a, b := id(), id()
		if bytes.Compare(a[:], b[:]) < 0 && termColumn(index.Message(a)) > termColumn(index.Message(b)) {
			t.Fatalf("the column of %s comes after that of %s", a, b)
		}
	})
}
