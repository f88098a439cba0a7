package postings

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"posthaste"
)

// TestEntriesAndFailedReads lets each read from the disk that a walk needs fail once: the
// walk returns the error, or everything.
func TestEntriesAndFailedReads(t *testing.T) {
	const file, files = 100, 4 // positions in each file, of which the last stays
	var left atomic.Int64      // reads until one fails
	failure := errors.New("the disk cannot read")
	options := &pebble.Options{
		FS:                          failingReads(&left, failure),
		Logger:                      quiet{},
		DisableAutomaticCompactions: true,
		FormatMajorVersion:          pebble.FormatNewest,
	}
	prefix := []byte("set")
	fillFiles(t, options, prefix, file, files)
	for _, dir := range []Direction{Ascending, Descending} {
		from := posthaste.Position(0)
		if dir == Descending {
			from = file * files
		}
		for n, failed := int64(1), true; failed; n++ {
			db, err := pebble.Open("", options)
			if err != nil {
				t.Fatal(err)
			}
			left.Store(n)
			found, err := walkAlone(db, dir, prefix, from)
			failed = left.Swap(0) <= 0
			if len(found) < files && !errors.Is(err, failure) {
				t.Errorf("read %d fails, ascending %v: %v was found, %v; want the error", n, dir, found, err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// walkAlone reads a set in which each position has a key of its own.
func walkAlone(db *pebble.DB, d Direction, prefix []byte, p posthaste.Position) (found []posthaste.Position, err error) {
	in, err := Intersect(db, [][][]byte{{prefix}}, d, true, new(int))
	if err != nil {
		return nil, err
	}
	low, high := p, posthaste.MaxPosition
	if d == Descending {
		low, high = 0, p
	}
	_, _, err = in.Walk(low, high, func(at posthaste.Position) (bool, error) {
		found = append(found, at)
		return false, nil
	})
	return found, errors.Join(err, in.Close())
}

// fillFiles writes a set of positions to files, deletes all but the last of each.
func fillFiles(t *testing.T, options *pebble.Options, prefix []byte, file, files int) {
	t.Helper()
	db, err := pebble.Open("", options)
	if err != nil {
		t.Fatal(err)
	}
	write := func(set func(key []byte) error, first, last int) {
		for p := first; p <= last; p++ {
			if err := set(binary.BigEndian.AppendUint64(slices.Clone(prefix), uint64(p))); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for last := file; last <= file*files; last += file {
		write(func(key []byte) error { return db.Set(key, nil, pebble.NoSync) }, last-file+1, last)
		write(func(key []byte) error { return db.Delete(key, pebble.NoSync) }, last-file+1, last-1)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRemovals removes positions from sets again and again, and compares what is left with what
// was not removed.
func TestRemovals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		sets := [][]byte{[]byte("set a"), []byte("set b")}
		left := make([][]posthaste.Position, len(sets))
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			batch := db.NewBatch()
			for n, prefix := range sets {
				next := posthaste.Position(rapid.IntRange(0, 3).Draw(t, "begin"))
				if last := len(left[n]) - 1; last >= 0 {
					next += left[n][last] + 1
				}
				for range rapid.IntRange(0, 60).Draw(t, "added") {
					left[n] = append(left[n], next)
					_ = db.Set(binary.BigEndian.AppendUint64(slices.Clone(prefix), uint64(next)), nil, nil)
					next += 1 + next%3
				}
				from := rapid.IntRange(0, len(left[n])).Draw(t, "from")
				to := rapid.IntRange(from, len(left[n])).Draw(t, "to")
				kept := rapid.IntRange(0, 20).Draw(t, "kept") // of those between
				rest := slices.Clone(left[n][:from])
				var removed []posthaste.Position
				for i, p := range left[n][from:to] {
					if i == kept {
						rest = append(rest, p)
					} else {
						removed = append(removed, p)
					}
				}
				left[n] = append(rest, left[n][to:]...)
				if len(removed) > 0 {
					Delete(db, batch, prefix, removed)
				}
			}
			if err := batch.Commit(nil); err != nil {
				t.Fatal(err)
			}
			for n, prefix := range sets {
				if found, err := walkAlone(db, Ascending, prefix, 0); err != nil || !slices.Equal(found, left[n]) {
					t.Fatalf("%s has %v, %v; want %v", prefix, found, err, left[n])
				}
			}
		}
	})
}

// failingReads is a file system in memory whose read fails that brings what is left to 0.
func failingReads(left *atomic.Int64, failure error) vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && left.Add(-1) == 0 {
			return failure
		}
		return nil
	}))
}
