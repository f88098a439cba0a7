package lsm

import (
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
)

// Dead letters and runs are added and removed one by one, so each of their terms has a key.

// entryList is a set of positions, each the end of a key with the prefix.
type entryList struct {
	keys      *blockSeeker
	direction direction
	seeks     *int // counts work
}

func (l *entryList) seek(p posthaste.Position) (nearest posthaste.Position, ok bool) {
	*l.seeks++
	if !l.keys.nearest(p, l.direction) {
		return 0, false
	}
	return l.keys.first(), true
}

func (l *entryList) close() error { return l.keys.close() }

// entries opens sets of positions that have a key each.
type entries struct {
	reader    pebble.Reader
	direction direction
}

// open opens the set of the keys with a prefix.
func (e *entries) open(prefix []byte, seeks *int) (positionSet, error) {
	keys, err := newBlockSeeker(e.reader, prefix)
	if err != nil {
		return nil, err
	}
	return &entryList{keys, e.direction, seeks}, nil
}

// removals are the positions to delete from sets, by the prefix of the set's keys. The zero
// value is not usable.
type removals map[string][]posthaste.Position

func (r removals) add(prefix []byte, at posthaste.Position) {
	r[string(prefix)] = append(r[string(prefix)], at)
}

// write deletes the positions. If a set has no other position between them, it writes one range
// deletion: pages skip that at once, but step over each key that was deleted by itself until a
// compaction has removed it.
func (r removals) write(reader pebble.Reader, to pebble.Writer) {
	for prefix, positions := range r {
		slices.Sort(positions)
		key := func(p posthaste.Position) []byte { return binary.BigEndian.AppendUint64([]byte(prefix), uint64(p)) }
		if first, last := positions[0], positions[len(positions)-1]; len(positions) > fewInARow && hasOnly(reader, []byte(prefix), positions) {
			_ = to.DeleteRange(key(first), key(last+1), nil)
			continue
		}
		for _, p := range positions {
			_ = to.Delete(key(p), nil)
		}
	}
}

// fewInARow is how many keys in a row are deleted one by one. For more, one range deletion costs
// readers less.
const fewInARow = 8

// hasOnly reports whether a set has none but the ascending positions from the first to the last of
// them. If it cannot be read it returns false.
func hasOnly(reader pebble.Reader, prefix []byte, positions []posthaste.Position) bool {
	keys, err := newBlockSeeker(reader, prefix)
	if err != nil {
		return false
	}
	only, last := true, positions[len(positions)-1]
	for ok := keys.nearest(positions[0], ascending); ok && only && keys.first() <= last; ok = keys.next() {
		_, only = slices.BinarySearch(positions, keys.first())
	}
	return keys.close() == nil && only
}
