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
	"posthaste/internal/store"
)

// TestGaps compares what is remembered with the positions it is about.
func TestGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const end = 60
		var remembered gaps
		var empty [end + 1]bool
		prefix := []byte("set")
		for range rapid.IntRange(1, 12).Draw(t, "gaps") {
			low := rapid.IntRange(0, end).Draw(t, "low")
			high := rapid.IntRange(low, min(low+9, end)).Draw(t, "high")
			for p := low; p <= high; p++ {
				empty[p] = true
			}
			remembered.add(prefix, gap{posthaste.Position(low), posthaste.Position(high)})
		}
		known := remembered.get(prefix)
		for i, g := range known {
			if g.low > g.high || i > 0 && g.low <= known[i-1].high+1 {
				t.Fatalf("the gaps %v do not ascend, or meet", known)
			}
		}
		if remembered.count != len(known) {
			t.Fatalf("%d gaps are counted as %d", len(known), remembered.count)
		}
		for p := range empty {
			for _, dir := range []direction{ascending, descending} {
				at := dir.nearestGap(known, posthaste.Position(p))
				holds := at >= 0 && at < len(known) && known[at].low <= posthaste.Position(p) && posthaste.Position(p) <= known[at].high
				if holds != empty[p] {
					t.Fatalf("%d is empty: %v; the nearest gap of %v, ascending %v, is number %d", p, empty[p], known, dir, at)
				}
			}
		}
	})
}

func TestGapsAreForgotten(t *testing.T) {
	var remembered gaps
	for n := range posthaste.Position(3 * maxGaps) {
		remembered.add([]byte{byte(n)}, gap{2 * n, 2 * n})
	}
	if remembered.count > maxGaps {
		t.Errorf("%d gaps are remembered, want %d at most", remembered.count, maxGaps)
	}
}

// TestEntriesAmongGaps walks through a set that grows at its end and loses what it has
// anywhere, again and again: whatever is remembered, a walk finds what is there.
func TestEntriesAmongGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		prefix := []byte("set")
		key := func(p posthaste.Position) []byte {
			return binary.BigEndian.AppendUint64(slices.Clone(prefix), uint64(p))
		}
		var remembered gaps
		var there []posthaste.Position
		visible := posthaste.Position(0)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			for range rapid.IntRange(0, 300).Draw(t, "added") {
				visible += 1 + visible%3
				there = append(there, visible)
				_ = db.Set(key(visible), nil, nil)
			}
			visible++ // by something that is not of the set
			from := rapid.IntRange(0, len(there)).Draw(t, "from")
			to := min(from+rapid.IntRange(0, 400).Draw(t, "deleted"), len(there))
			for _, p := range there[from:to] {
				_ = db.Delete(key(p), nil)
			}
			there = slices.Delete(there, from, to)
			for _, dir := range []direction{ascending, descending} {
				e := &entries{db, dir, &remembered, visible}
				p := posthaste.Position(rapid.Uint64Range(0, uint64(visible)).Draw(t, "begin"))
				if rapid.Bool().Draw(t, "whole") {
					p = 0
					if dir == descending {
						p = visible
					}
				}
				want := slices.DeleteFunc(slices.Clone(there), func(at posthaste.Position) bool { return dir.nearer(at, p) })
				if dir == descending {
					slices.Reverse(want)
				}
				if got, err := walkEntries(e, prefix, p); err != nil || !slices.Equal(got, want) {
					t.Fatalf("from %d, ascending %v: %v, %v, want %v; gaps %v", p, dir, got, err, want, remembered.get(prefix))
				}
			}
		}
	})
}

func walkEntries(e *entries, prefix []byte, p posthaste.Position) (found []posthaste.Position, err error) {
	var seeks int
	set, err := e.open(prefix, &seeks, false)
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

// TestGapsAndFailedReads lets each read from the disk that a walk needs fail once: the
// walk tells, and nothing is remembered that hides from others what is there.
func TestGapsAndFailedReads(t *testing.T) {
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
	want := fillFiles(t, options, prefix, file, files)
	for _, dir := range []direction{ascending, descending} {
		for n, failed := int64(1), true; failed; n++ {
			db, err := pebble.Open("", options)
			if err != nil {
				t.Fatal(err)
			}
			var remembered gaps
			e := &entries{db, dir, &remembered, file*files + 1}
			from := posthaste.Position(0)
			if dir == descending {
				from = file * files
			}
			left.Store(n)
			found, err := walkEntries(e, prefix, from)
			failed = left.Swap(0) <= 0
			if len(found) < files && !errors.Is(err, failure) {
				t.Errorf("read %d fails, ascending %v: %v was found, %v; want the error", n, dir, found, err)
			}
			found, err = walkEntries(e, prefix, from)
			slices.Sort(found)
			if err != nil || !slices.Equal(found, want) {
				t.Errorf("after read %d failed, ascending %v: %v was found, %v; want %v; gaps %v", n, dir, found, err, want, remembered.get(prefix))
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// fillFiles writes a set of positions to files, deletes all but the last of each, and
// returns those.
func fillFiles(t *testing.T, options *pebble.Options, prefix []byte, file, files int) (left []posthaste.Position) {
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
		left = append(left, posthaste.Position(last))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return left
}

// TestPagesAmongDeletedLetters deletes dead letters and lists what is left, of which the
// first page may step over what was deleted and no other does.
func TestPagesAmongDeletedLetters(t *testing.T) {
	if testing.Short() {
		t.Skip("it does one thing at a time")
	}
	const letters, page = 2000, 10
	oldest := func(n int) bool { return n < letters*9/10 }
	newest := func(n int) bool { return n >= letters/10 }
	middle := func(n int) bool { return n > letters/100 && n < letters-letters/100 }
	all := func(int) bool { return true }
	labelled := store.DeadLetterFilter{Labels: []string{"odd"}}
	tests := []struct {
		name    string
		deleted func(n int) bool
		query   store.DeadLetterQuery
		want    int
	}{
		{"the oldest, from the oldest on", oldest, store.DeadLetterQuery{OldestFirst: true}, page},
		{"the oldest, by label", oldest, store.DeadLetterQuery{Filter: labelled, OldestFirst: true}, page},
		{"the newest, from the newest on", newest, store.DeadLetterQuery{}, page},
		{"the newest, by label", newest, store.DeadLetterQuery{Filter: labelled}, page},
		{"the middle, from the oldest on", middle, store.DeadLetterQuery{OldestFirst: true}, page},
		{"the middle, from the newest on", middle, store.DeadLetterQuery{}, page},
		{"all, from the oldest on", all, store.DeadLetterQuery{OldestFirst: true}, 0},
		{"all, from the newest on", all, store.DeadLetterQuery{}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := openMem(t)
			ids := addLettersToDLQ(t, s, letters)
			for n := 0; n < letters; n += page {
				var some []posthaste.DeadLetterID
				for i := n; i < n+page; i++ {
					if test.deleted(i) {
						some = append(some, ids[i])
					}
				}
				if _, err := s.DeleteDeadLetters(t.Context(), "ann", some, nil); err != nil {
					t.Fatal(err)
				}
			}
			test.query.Limit = page
			stepsOfPage(t, s, test.query)
			for range 3 {
				s.grow(t) // what is visible moves on
				found, steps := stepsOfPage(t, s, test.query)
				if found != test.want || steps > gapSteps+2*page {
					t.Errorf("a page of %d stepped over %d keys, want %d and at most %d", found, steps, test.want, gapSteps+2*page)
				}
			}
		})
	}
}

// grow adds an event to the log.
func (s *Store) grow(t *testing.T) {
	t.Helper()
	m := &posthaste.Message{User: "ann", URL: "http://a.example/", CreatedAt: noonOfRuns, NotBefore: noonOfRuns}
	m.ID[15] = 1
	err := s.writer.do(t.Context(), func(c *commit) error {
		c.event(m, noonOfRuns, posthaste.Event{MessageID: m.ID, State: posthaste.StateCreated})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// addLettersToDLQ makes dead letters of ann, every other one with a label, and returns their
// ids, which ascend.
func addLettersToDLQ(t *testing.T, s *Store, n int) (ids []posthaste.DeadLetterID) {
	t.Helper()
	err := s.writer.do(t.Context(), func(c *commit) error {
		for i := range n {
			id, err := posthaste.NewMessageID(noonOfRuns.Add(time.Duration(i)*time.Millisecond), zeros{})
			if err != nil {
				return err
			}
			m := &posthaste.Message{ID: id, User: "ann", URL: "http://a.example/", CreatedAt: noonOfRuns}
			if i%2 == 1 {
				m.Labels = []string{"odd"}
			}
			at := c.event(m, noonOfRuns, posthaste.Event{MessageID: id, State: posthaste.StateFailed})
			ids = append(ids, posthaste.DeadLetterID(at))
			s.addToDLQ(c, &posthaste.DeadLetter{ID: posthaste.DeadLetterID(at), Message: m})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// stepsOfPage reads a page and returns how many dead letters it has, and how many keys
// were stepped over in all the sets it was found by.
func stepsOfPage(t *testing.T, s *Store, query store.DeadLetterQuery) (found, steps int) {
	t.Helper()
	visible := s.visible()
	query.High = visible
	in, err := deadLetterPositions(&entries{s.db, direction(query.OldestFirst), &s.gaps, visible}, "ann", &query)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = in.walk(0, visible, direction(query.OldestFirst), func(posthaste.Position) (bool, error) {
		found++
		return found == query.Limit, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range in.sets {
		if united, ok := set.(*union); ok {
			set = united.sets[0]
		}
		steps += set.(*entryList).keys.stepped()
	}
	if err := in.close(); err != nil {
		t.Fatal(err)
	}
	return found, steps
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
