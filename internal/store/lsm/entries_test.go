package lsm

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
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
	for _, dir := range []direction{ascending, descending} {
		from := posthaste.Position(0)
		if dir == descending {
			from = file * files
		}
		for n, failed := int64(1), true; failed; n++ {
			db, err := pebble.Open("", options)
			if err != nil {
				t.Fatal(err)
			}
			left.Store(n)
			found, err := walkEntries(&entries{db, dir}, prefix, from)
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

func walkEntries(e *entries, prefix []byte, p posthaste.Position) (found []posthaste.Position, err error) {
	var seeks int
	set, err := e.open(prefix, &seeks)
	if err != nil {
		return nil, err
	}
	for at, ok := set.seek(p); ok; at, ok = set.seek(p) {
		found = append(found, at)
		if p, ok = e.direction.after(at); !ok {
			break
		}
	}
	return found, set.close()
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
			removed, batch := removals{}, db.NewBatch()
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
				for i, p := range left[n][from:to] {
					if i == kept {
						rest = append(rest, p)
					} else {
						removed.add(prefix, p)
					}
				}
				left[n] = append(rest, left[n][to:]...)
			}
			removed.write(db, batch)
			if err := batch.Commit(nil); err != nil {
				t.Fatal(err)
			}
			for n, prefix := range sets {
				if found, err := walkEntries(&entries{db, ascending}, prefix, 0); err != nil || !slices.Equal(found, left[n]) {
					t.Fatalf("%s has %v, %v; want %v", prefix, found, err, left[n])
				}
			}
		}
	})
}

// TestPagesAmongDeletedLetters deletes dead letters, a hundred at a time, and lists what is left:
// a page skips what was deleted.
func TestPagesAmongDeletedLetters(t *testing.T) {
	const letters, deletion, page = 2000, 100, 10
	labelled := posthaste.Filter{Labels: []string{"odd"}}
	tests := map[string]struct {
		kept  func(n int) bool // of deletions
		query store.DeadLetterQuery
		want  int
	}{
		"the oldest":           {func(n int) bool { return n == 19 }, store.DeadLetterQuery{OldestFirst: true}, page},
		"the oldest, by label": {func(n int) bool { return n == 19 }, store.DeadLetterQuery{Filter: labelled, OldestFirst: true}, page},
		"the newest":           {func(n int) bool { return n == 0 }, store.DeadLetterQuery{}, page},
		"the newest, by label": {func(n int) bool { return n == 0 }, store.DeadLetterQuery{Filter: labelled}, page},
		"all":                  {func(n int) bool { return false }, store.DeadLetterQuery{}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := openMem(t)
			ids := addLettersToDLQ(t, s, letters)
			if err := s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
				t.Fatal(err)
			}
			for n := range letters / deletion {
				if test.kept(n) {
					continue
				}
				if _, err := ledger.New(s).DeleteDeadLetters(t.Context(), "ann", ids[n*deletion:(n+1)*deletion], nil); err != nil {
					t.Fatal(err)
				}
			}
			test.query.Limit = page
			const most = 2*page + 2*letters/deletion
			if found, steps := stepsOfPage(t, s, test.query); found != test.want || steps > most {
				t.Errorf("a page of %d stepped over %d keys, want %d and at most %d", found, steps, test.want, most)
			}
		})
	}
}

// addLettersToDLQ makes dead letters of ann, every other one with a label, and returns their
// ids, which ascend.
func addLettersToDLQ(t *testing.T, s *Store, n int) (ids []posthaste.DeadLetterID) {
	t.Helper()
	err := s.Update(t.Context(), noonOfRuns, store.Scope{User: "ann"}, func(tx store.Tx) error {
		for i := range n {
			id, err := posthaste.NewMessageID(noonOfRuns.Add(time.Duration(i)*time.Millisecond), zeros{})
			if err != nil {
				return err
			}
			m := &posthaste.Message{ID: id, User: "ann", URL: "http://a.example/", CreatedAt: noonOfRuns}
			if i%2 == 1 {
				m.Labels = []string{"odd"}
			}
			at := tx.Log(m, posthaste.Event{MessageID: id, State: posthaste.StateFailed})
			ids = append(ids, posthaste.DeadLetterID(at))
			d := &posthaste.DeadLetter{ID: posthaste.DeadLetterID(at), Message: m}
			tx.Put(store.ItemDeadLetter, binary.BigEndian.AppendUint64(nil, uint64(at)), record.AppendDeadLetter(nil, d),
				store.Found{}, store.Found{Terms: index.DeadLetter(d)})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// stepsOfPage reads a page and returns how many dead letters it has, and how many keys
// were stepped over in all the sets it was found by.
func stepsOfPage(t *testing.T, s *Store, query store.DeadLetterQuery) (shown, steps int) {
	t.Helper()
	visible := s.visible()
	query.High = visible
	letters := tableOf(store.ItemDeadLetter)
	in, err := found(&entries{s.db, direction(query.OldestFirst)}, "ann", letters, &store.FindQuery{Terms: index.DeadLetters(&query.Filter)})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = in.walk(0, visible, direction(query.OldestFirst), func(posthaste.Position) (bool, error) {
		shown++
		return shown == query.Limit, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range in.sets {
		if united, ok := set.(*union); ok {
			set = united.sets[0]
		}
		stats := set.(*entryList).keys.iter.Stats()
		steps += stats.ForwardStepCount[pebble.InternalIterCall] + stats.ReverseStepCount[pebble.InternalIterCall]
	}
	if err := in.close(); err != nil {
		t.Fatal(err)
	}
	return shown, steps
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// failingReads is a file system in memory whose read fails that brings what is left to 0.
func failingReads(left *atomic.Int64, failure error) vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && left.Add(-1) == 0 {
			return failure
		}
		return nil
	}))
}
