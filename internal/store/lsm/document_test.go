package lsm

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// openInMemory opens a store that is closed when the test ends.
func openInMemory(t *testing.T) *Store {
	s, err := Open("data", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// damage writes under a key what cannot be read.
func (s *Store) damage(t *testing.T, key []byte) {
	t.Helper()
	if err := s.db.Set(key, []byte{0xff}, pebble.NoSync); err != nil {
		t.Fatal(err)
	}
}
