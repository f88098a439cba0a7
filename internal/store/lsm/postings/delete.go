package postings

import (
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
)

// FewInARow is how many keys in a row are deleted one by one. For more, one range deletion costs
// readers less: they skip it at once, but step over each key that was deleted by itself until a
// compaction has removed it.
const FewInARow = 8

// Delete deletes positions from a set in which each has a key of its own: by one range deletion, if
// the set has no other position between them.
func Delete(r pebble.Reader, to pebble.Writer, prefix []byte, positions []posthaste.Position) {
	slices.Sort(positions)
	key := func(p posthaste.Position) []byte {
		return binary.BigEndian.AppendUint64(slices.Clone(prefix), uint64(p))
	}
	if first, last := positions[0], positions[len(positions)-1]; len(positions) > FewInARow && hasOnly(r, prefix, positions) {
		_ = to.DeleteRange(key(first), key(last+1), nil)
		return
	}
	for _, p := range positions {
		_ = to.Delete(key(p), nil)
	}
}

// hasOnly reports whether a set has none but the ascending positions from the first to the last of
// them. If it cannot be read it returns false.
func hasOnly(r pebble.Reader, prefix []byte, positions []posthaste.Position) bool {
	keys, err := NewBlocks(r, prefix)
	if err != nil {
		return false
	}
	only, last := true, positions[len(positions)-1]
	for ok := keys.nearest(positions[0], Ascending); ok && only && keys.First() <= last; ok = keys.step(Ascending) {
		_, only = slices.BinarySearch(positions, keys.First())
	}
	return keys.Close() == nil && only
}
