package lsm

import (
	"container/heap"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store/index"
)

// Indexes are read through cursors over sorted sets of positions. A cursor moves in one direction
// and has one operation, seek: the nearest position of the set at or beyond another. A union
// merges its sets with a heap; an intersection seeks in each set in turn (leapfrog join).

// direction is the order in which a query reads.
type direction bool

const (
	descending direction = false
	ascending  direction = true
)

// nearer reports whether a comes before b in the direction.
func (d direction) nearer(a, b posthaste.Position) bool {
	if d == ascending {
		return a < b
	}
	return a > b
}

// after returns the position next to p in the direction; ok is false at the last position.
func (d direction) after(p posthaste.Position) (next posthaste.Position, ok bool) {
	if d == ascending {
		return p + 1, p < posthaste.MaxPosition
	}
	return p - 1, p > 0
}

// nearest returns the index of the nearest of ascending positions at or beyond p.
// It is out of range if there is none.
func (d direction) nearest(positions []posthaste.Position, p posthaste.Position) int {
	at, found := slices.BinarySearch(positions, p)
	if !found && d == descending {
		at--
	}
	return at
}

// blockSeeker finds blocks by position among keys that share a prefix and end
// in the block's first position.
type blockSeeker struct {
	iter   *pebble.Iterator
	prefix []byte
	key    []byte // scratch
	failed error  // of the iterator, which forgets it when it is moved again
}

func newBlockSeeker(r pebble.Reader, prefix []byte) (*blockSeeker, error) {
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return nil, err
	}
	return &blockSeeker{iter: iter, prefix: prefix}, nil
}

// at goes to the last block that begins at or before p, the only one that can
// hold p.
func (b *blockSeeker) at(p posthaste.Position) bool {
	b.key = binary.BigEndian.AppendUint64(append(b.key[:0], b.prefix...), uint64(p)+1)
	return b.moved(b.iter.SeekLT(b.key))
}

// next goes to the block behind the present one, and start to the first of all.
func (b *blockSeeker) next() bool  { return b.moved(b.iter.Next()) }
func (b *blockSeeker) start() bool { return b.moved(b.iter.First()) }

// step goes to the block beside the present one.
func (b *blockSeeker) step(dir direction) bool {
	if dir == ascending {
		return b.next()
	}
	return b.moved(b.iter.Prev())
}

// moved reports whether the iterator, which was just moved, is at a block. After an error it always
// returns false.
func (b *blockSeeker) moved(valid bool) bool {
	if b.failed == nil {
		b.failed = b.iter.Error()
	}
	return valid && b.failed == nil
}

// first returns the first position of the present block.
func (b *blockSeeker) first() posthaste.Position {
	return posthaste.Position(binary.BigEndian.Uint64(b.iter.Key()[len(b.prefix):]))
}

// nearest goes to the nearest block that begins at or beyond p.
func (b *blockSeeker) nearest(p posthaste.Position, dir direction) (found bool) {
	if dir == descending {
		return b.at(p)
	}
	b.key = binary.BigEndian.AppendUint64(append(b.key[:0], b.prefix...), uint64(p))
	return b.moved(b.iter.SeekGE(b.key))
}

func (b *blockSeeker) close() error { return errors.Join(b.failed, b.iter.Close()) }

// positionSet is a sorted set of positions that is read in one direction. seek
// returns the nearest position at or beyond p; ok is false when there is none. Each p
// lies at or beyond the one before.
type positionSet interface {
	seek(p posthaste.Position) (nearest posthaste.Position, ok bool)
	close() error
}

// postingList is the set of positions of one term, in blocks on disk.
type postingList struct {
	blocks    *blockSeeker
	direction direction
	block     []posthaste.Position // of the present one, ascending; empty before the first seek
	rest      []byte               // of the present one, not decoded yet
	at        int                  // in block, where it was read last
	end       bool
	seeks     *int // counts work
}

func (l *postingList) seek(p posthaste.Position) (nearest posthaste.Position, ok bool) {
	if l.end {
		return 0, false
	}
	if !l.reaches(p) {
		*l.seeks++
		if !l.load(p) {
			l.end = true
			return 0, false
		}
	}
	return l.nearest(p), true
}

// nearest returns the nearest position at or beyond p, which must be within the current block. It
// searches exponentially from where it was last, because p is mostly close.
func (l *postingList) nearest(p posthaste.Position) posthaste.Position {
	if l.direction == ascending {
		ahead, reach := l.block[l.at:], 1
		for reach < len(ahead) && ahead[reach-1] < p {
			reach *= 2
		}
		l.at += reach/2 + l.direction.nearest(ahead[reach/2:min(reach, len(ahead))], p)
		return l.block[l.at]
	}
	ahead, reach := l.block[:l.at+1], 1
	for reach < len(ahead) && ahead[len(ahead)-reach] > p {
		reach *= 2
	}
	low := max(len(ahead)-reach, 0)
	l.at = low + l.direction.nearest(ahead[low:len(ahead)-reach/2], p)
	return l.block[l.at]
}

// reaches reports whether the present block answers for p, and decodes as much of it as is
// needed for that. It also answers where p lies in the gap before it: that gap was there
// when it was read.
func (l *postingList) reaches(p posthaste.Position) bool {
	if len(l.block) == 0 {
		return false
	}
	if l.direction == descending && p < l.block[0] {
		return false
	}
	if len(l.rest) > 0 && p > l.block[len(l.block)-1] {
		l.decode(p)
	}
	return l.direction == descending || p <= l.block[len(l.block)-1]
}

// load reads the block that holds the nearest position at or beyond p, which the present
// one does not reach.
func (l *postingList) load(p posthaste.Position) bool {
	if len(l.block) > 0 {
		if !l.blocks.step(l.direction) {
			return false
		}
		if !l.direction.nearer(l.blocks.first(), p) {
			return l.open(p)
		}
	}
	if l.blocks.at(p) {
		if l.open(p) {
			return true
		}
		return l.blocks.next() && l.open(p)
	}
	return l.direction == ascending && l.blocks.start() && l.open(p)
}

// open begins to decode the block that was moved to, and reports whether it answers for p.
func (l *postingList) open(p posthaste.Position) bool {
	l.block, l.rest, l.at = append(l.block[:0], l.blocks.first()), l.blocks.iter.Value(), 0
	reached := l.reaches(p)
	if l.direction == descending {
		l.at = len(l.block) - 1
	}
	return reached
}

// decode decodes the present block up to p.
func (l *postingList) decode(p posthaste.Position) {
	block, rest, err := index.DecodeUpTo(p, l.block, l.rest)
	if l.block, l.rest = block, rest; err != nil {
		l.blocks.failed = errors.Join(l.blocks.failed, err)
	}
}

func (l *postingList) close() error { return l.blocks.close() }

// fixedList is a set of positions given by the query.
type fixedList struct {
	positions []posthaste.Position // ascending
	direction direction
}

func (l fixedList) seek(p posthaste.Position) (nearest posthaste.Position, ok bool) {
	at := l.direction.nearest(l.positions, p)
	if at < 0 || at == len(l.positions) {
		return 0, false
	}
	return l.positions[at], true
}

func (l fixedList) close() error { return nil }

// union is the set of positions in any of its sets. It keeps the nearest position of each set in a
// heap, and seeks in a set again only when that position was passed: a thousand sets of a few
// positions cost a few seeks each.
type union struct {
	sets      []positionSet
	direction direction
	fronts    []front // a heap; without the sets that have come to their end
	begun     bool
}

// front is the nearest position of a set that has not been passed.
type front struct {
	at  posthaste.Position
	set positionSet
}

func (u *union) seek(p posthaste.Position) (nearest posthaste.Position, ok bool) {
	if !u.begun {
		u.begin(p)
	}
	for len(u.fronts) > 0 && u.direction.nearer(u.fronts[0].at, p) {
		switch u.fronts[0].at, ok = u.fronts[0].set.seek(p); {
		case !ok:
			heap.Pop(u)
		case len(u.fronts) > 1:
			heap.Fix(u, 0)
		}
	}
	if len(u.fronts) == 0 {
		return 0, false
	}
	return u.fronts[0].at, true
}

// begin seeks in all sets.
func (u *union) begin(p posthaste.Position) {
	u.begun = true
	for _, set := range u.sets {
		if at, ok := set.seek(p); ok {
			u.fronts = append(u.fronts, front{at, set})
		}
	}
	heap.Init(u)
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (u *union) Len() int           { return len(u.fronts) }
func (u *union) Less(i, j int) bool { return u.direction.nearer(u.fronts[i].at, u.fronts[j].at) }
func (u *union) Swap(i, j int)      { u.fronts[i], u.fronts[j] = u.fronts[j], u.fronts[i] }
func (u *union) Push(any)           { panic("lsm: no set joins a union that is read") }
func (u *union) Pop() any {
	last := u.fronts[len(u.fronts)-1]
	u.fronts = u.fronts[:len(u.fronts)-1]
	return last
}

func (u *union) close() error {
	var errs []error
	for _, set := range u.sets {
		errs = append(errs, set.close())
	}
	return errors.Join(errs...)
}

// intersection is the set of positions in all of its sets.
type intersection struct {
	sets  []positionSet
	seeks int // blocks read so far
}

// walk visits the positions of the intersection within a range, nearest first. It stops when visit
// returns enough or the page has reached its limits; then more may follow from next on.
func (in *intersection) walk(low, high posthaste.Position, dir direction, visit func(posthaste.Position) (enough bool, err error)) (next posthaste.Position, more bool, err error) {
	p, ok := high, true
	if dir == ascending {
		p = low
	}
	for scanned := 0; ok; scanned++ {
		at, found, end := in.seek(p, maxPageSeeks)
		if end || at < low || at > high {
			return 0, false, nil
		}
		if !found || scanned == maxPageScan {
			return at, true, nil
		}
		if enough, err := visit(at); enough || err != nil {
			return at, enough, err
		}
		p, ok = dir.after(at)
	}
	return 0, false, nil
}

// intersect opens the intersection of unions of posting lists, each list given by
// the prefix of its keys.
func intersect(r pebble.Reader, prefixes [][][]byte, dir direction) (*intersection, error) {
	return intersectOf(prefixes, dir, func(prefix []byte, seeks *int) (positionSet, error) {
		blocks, err := newBlockSeeker(r, prefix)
		return &postingList{blocks: blocks, direction: dir, seeks: seeks}, err
	})
}

// intersectOf opens the intersection of unions of sets, each of which open opens, to count
// its work in seeks.
func intersectOf(prefixes [][][]byte, dir direction, open func(prefix []byte, seeks *int) (positionSet, error)) (*intersection, error) {
	in := &intersection{}
	for _, alternatives := range prefixes {
		u := &union{direction: dir}
		in.sets = append(in.sets, u)
		for _, prefix := range alternatives {
			set, err := open(prefix, &in.seeks)
			if err != nil {
				return nil, errors.Join(err, in.close())
			}
			u.sets = append(u.sets, set)
		}
	}
	return in, nil
}

// seek returns the nearest common position at or beyond p. When it has read
// budget blocks without finding one it stops: found is false, and every position
// nearer than at is known not to be common.
func (in *intersection) seek(p posthaste.Position, budget int) (at posthaste.Position, found, end bool) {
	for agreed := 0; agreed < len(in.sets); {
		if in.seeks >= budget {
			return p, false, false
		}
		nearest, ok := in.sets[agreed].seek(p)
		switch {
		case !ok:
			return p, false, true
		case nearest == p:
			agreed++
		default:
			p, agreed = nearest, 0
		}
	}
	return p, true, false
}

func (in *intersection) close() error {
	var errs []error
	for _, set := range in.sets {
		errs = append(errs, set.close())
	}
	return errors.Join(errs...)
}
