package lsm

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// TestCacheBesideWriteBuffers lets the write buffers grow to their size: what is read twice
// is read from the disk once all the same.
func TestCacheBesideWriteBuffers(t *testing.T) {
	s := openMem(t)
	large := make([]byte, writeBuffer*3/8)
	for n := range 4 { // the second finds the first write buffer full, and so on
		key := fmt.Appendf(nil, "key-%d", n)
		if err := s.db.Set(key, large, pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.db.Set([]byte("small"), nil, pebble.NoSync), s.db.Flush()); err != nil {
		t.Fatal(err)
	}
	metrics := s.db.Metrics()
	if reserved := metrics.MemTable.Size + metrics.MemTable.ZombieSize; reserved < writeBuffer {
		t.Fatalf("the write buffers have %d bytes, want %d at least", reserved, writeBuffer)
	}
	read := func() {
		t.Helper()
		if err := get(s.db, []byte("small"), func([]byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	read()
	before := s.db.Metrics().BlockCache
	read()
	after := s.db.Metrics().BlockCache
	if after.Misses > before.Misses || after.Hits == before.Hits {
		t.Errorf("the second time, %d blocks come from the cache and %d from the disk; want all from the cache",
			after.Hits-before.Hits, after.Misses-before.Misses)
	}
}
