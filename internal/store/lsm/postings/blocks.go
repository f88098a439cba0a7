// Package postings reads sorted sets of positions: the events that have a term, in blocks, or records
// that have a key each. It unites and intersects them without reading more than a page needs.
//
// A set is read in one direction and has one operation, seek: the nearest position at or beyond
// another. A union takes the nearest position of its sets; an intersection seeks in each set in turn (leapfrog
// join).
package postings

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
)

// Direction is the order in which a query reads.
type Direction bool

const (
	Descending Direction = false
	Ascending  Direction = true
)

// nearer reports whether a comes before b in the direction.
func (d Direction) nearer(a, b posthaste.Position) bool {
	if d == Ascending {
		return a < b
	}
	return a > b
}

// After returns the position next to p in the direction; ok is false at the last position.
func (d Direction) After(p posthaste.Position) (next posthaste.Position, ok bool) {
	if d == Ascending {
		return p + 1, p < posthaste.MaxPosition
	}
	return p - 1, p > 0
}

// Nearest returns the index of the nearest of n ascending values at or beyond what compare compares
// them with. ok is false if there is none.
func Nearest[T, P any](d Direction, values []T, p P, compare func(T, P) int) (at int, ok bool) {
	at, found := slices.BinarySearchFunc(values, p, compare)
	if !found && d == Descending {
		at--
	}
	return at, at >= 0 && at < len(values)
}

// Blocks are keys that share a prefix and end in the first position of what they have.
type Blocks struct {
	iter   *pebble.Iterator
	prefix []byte
	key    []byte // scratch
	failed error  // the first one; the iterator forgets its own when it is moved again
}

// NewBlocks returns the blocks with a prefix.
func NewBlocks(r pebble.Reader, prefix []byte) (*Blocks, error) {
	end := slices.Concat(prefix, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) // longer than a position
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: end})
	if err != nil {
		return nil, err
	}
	return &Blocks{iter: iter, prefix: prefix}, nil
}

// Find goes to the block that has the nearest position at or beyond p, which the present block has
// not. open reads a block and reports whether it has one. near says that it is probably in the block
// next to the present one.
func (b *Blocks) Find(p posthaste.Position, d Direction, near bool, open func() bool) bool {
	if near {
		if !b.step(d) {
			return false
		}
		if !d.nearer(b.First(), p) {
			return open()
		}
	}
	if b.to(p + 1).moved(b.iter.SeekLT(b.key)) { // the only one that can hold p
		return open() || b.moved(b.iter.Next()) && open()
	}
	return d == Ascending && b.moved(b.iter.First()) && open()
}

// nearest goes to the nearest block that begins at or beyond p.
func (b *Blocks) nearest(p posthaste.Position, d Direction) bool {
	if d == Descending {
		return b.to(p + 1).moved(b.iter.SeekLT(b.key))
	}
	return b.to(p).moved(b.iter.SeekGE(b.key))
}

func (b *Blocks) step(d Direction) bool {
	if d == Ascending {
		return b.moved(b.iter.Next())
	}
	return b.moved(b.iter.Prev())
}

// to sets the key to the one of a block that begins at p.
func (b *Blocks) to(p posthaste.Position) *Blocks {
	b.key = binary.BigEndian.AppendUint64(append(b.key[:0], b.prefix...), uint64(p))
	return b
}

// moved reports whether the iterator, which was just moved, is at a block. After an error it always
// returns false.
func (b *Blocks) moved(valid bool) bool {
	b.Fail(b.iter.Error())
	return valid && b.failed == nil
}

// Fail ends the blocks with an error, unless it is nil.
func (b *Blocks) Fail(err error) {
	if b.failed == nil {
		b.failed = err
	}
}

// First returns the first position of the present block.
func (b *Blocks) First() posthaste.Position {
	return posthaste.Position(binary.BigEndian.Uint64(b.iter.Key()[len(b.prefix):]))
}

// Value returns the present block, until Find is called.
func (b *Blocks) Value() []byte { return b.iter.Value() }

// Err returns the first error.
func (b *Blocks) Err() error { return b.failed }

// Close closes the blocks and returns the first error.
func (b *Blocks) Close() error { return errors.Join(b.failed, b.iter.Close()) }
