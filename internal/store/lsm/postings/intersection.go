package postings

import (
	"cmp"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store/index"
)

// Bounds of the work of one page: about a quarter of a second.
const (
	MaxSeeks = 200_000 // blocks read, most of them one after the other
	MaxScan  = 20_000  // positions visited
)

// Set is a sorted set of positions that is read in one direction. Seek returns the nearest position at
// or beyond p; ok is false when there is none, and then it is not called again. Each p lies at or beyond
// the one before. Close returns the error that ended the set early, if any.
type Set interface {
	Seek(p posthaste.Position) (nearest posthaste.Position, ok bool)
	Close() error
}

// list is a set of positions on disk.
type list struct {
	*Blocks
	direction Direction
	alone     bool                 // each position has a key of its own
	block     []posthaste.Position // the present one, ascending; empty before the first seek
	seeks     *int                 // counts work
}

func (l *list) Seek(p posthaste.Position) (nearest posthaste.Position, ok bool) {
	if l.alone {
		*l.seeks++
		if !l.nearest(p, l.direction) {
			return 0, false
		}
		return l.First(), true
	}
	if nearest, ok = l.inBlock(p); !ok {
		*l.seeks++
		l.Find(p, l.direction, len(l.block) > 0, func() bool {
			nearest, ok = l.open(p)
			return ok
		})
	}
	return nearest, ok
}

// inBlock returns the nearest position in the present block. That also answers for the gap before it,
// which was there when the block was read.
func (l *list) inBlock(p posthaste.Position) (nearest posthaste.Position, ok bool) {
	at, ok := Nearest(l.direction, l.block, p, cmp.Compare)
	if ok {
		nearest = l.block[at]
	}
	return nearest, ok
}

func (l *list) open(p posthaste.Position) (nearest posthaste.Position, ok bool) {
	block, err := index.DecodePosting(l.block[:0], l.First(), l.Value())
	if l.block = block; err != nil {
		l.Fail(err)
		return 0, false
	}
	return l.inBlock(p)
}

// fixed is a set of positions given by the query.
type fixed struct {
	positions []posthaste.Position // ascending
	direction Direction
}

func (l fixed) Seek(p posthaste.Position) (nearest posthaste.Position, ok bool) {
	at, ok := Nearest(l.direction, l.positions, p, cmp.Compare)
	if ok {
		nearest = l.positions[at]
	}
	return nearest, ok
}

func (l fixed) Close() error { return nil }

// union is the set of positions in any of its sets. It keeps the nearest position of each set, and seeks
// in a set again only when that position was passed: a thousand sets of a few positions cost a few seeks
// each.
type union struct {
	sets      []Set
	direction Direction
	fronts    []front // of the sets that have not come to their end
	begun     bool
}

// front is the nearest position of a set that has not been passed, once it was sought.
type front struct {
	set    Set
	at     posthaste.Position
	sought bool
}

func (u *union) Seek(p posthaste.Position) (nearest posthaste.Position, ok bool) {
	if !u.begun {
		u.begun = true
		for _, set := range u.sets {
			u.fronts = append(u.fronts, front{set: set})
		}
	}
	left := u.fronts[:0]
	for _, f := range u.fronts {
		if !f.sought || u.direction.nearer(f.at, p) {
			if f.at, f.sought = f.set.Seek(p); !f.sought {
				continue
			}
		}
		left = append(left, f)
		if !ok || u.direction.nearer(f.at, nearest) {
			nearest, ok = f.at, true
		}
	}
	u.fronts = left
	return nearest, ok
}

func (u *union) Close() error { return closeAll(u.sets) }

// Intersection is the set of positions in all of its sets.
type Intersection struct {
	sets      []Set
	direction Direction
	seeks     *int // blocks read so far
}

// Intersect opens the intersection of unions of sets, each given by the prefix of its keys. alone says
// that each position has a key of its own, and is not in a block. seeks counts work, which MaxSeeks
// bounds.
func Intersect(r pebble.Reader, prefixes [][][]byte, d Direction, alone bool, seeks *int) (*Intersection, error) {
	in := &Intersection{direction: d, seeks: seeks}
	for _, alternatives := range prefixes {
		u := &union{direction: d}
		in.sets = append(in.sets, u)
		for _, prefix := range alternatives {
			blocks, err := NewBlocks(r, prefix)
			if err != nil {
				return nil, errors.Join(err, in.Close())
			}
			u.sets = append(u.sets, &list{Blocks: blocks, direction: d, alone: alone, seeks: seeks})
		}
	}
	return in, nil
}

// Add leaves only positions of a set in the intersection, which closes it. That set is asked first.
func (in *Intersection) Add(set Set) { in.sets = slices.Insert(in.sets, 0, set) }

// Restrict leaves only some positions, in any order, in the intersection.
func (in *Intersection) Restrict(to []posthaste.Position) {
	to = slices.Clone(to)
	slices.Sort(to)
	in.sets = append(in.sets, fixed{to, in.direction})
}

// Walk visits the positions of the intersection within a range, nearest first. It stops when visit
// returns enough or the page has reached its bounds; then more may follow from next on.
func (in *Intersection) Walk(low, high posthaste.Position, visit func(posthaste.Position) (enough bool, err error)) (next posthaste.Position, more bool, err error) {
	p, ok := high, true
	if in.direction == Ascending {
		p = low
	}
	for scanned := 0; ok; scanned++ {
		at, found, end := in.seek(p, MaxSeeks)
		if end || at < low || at > high {
			return 0, false, nil
		}
		if !found || scanned == MaxScan {
			return at, true, nil
		}
		if enough, err := visit(at); enough || err != nil {
			return at, enough, err
		}
		p, ok = in.direction.After(at)
	}
	return 0, false, nil
}

// seek returns the nearest common position at or beyond p. When it has read
// budget blocks without finding one it stops: found is false, and every position
// nearer than at is known not to be common.
func (in *Intersection) seek(p posthaste.Position, budget int) (at posthaste.Position, found, end bool) {
	for agreed := 0; agreed < len(in.sets); {
		if *in.seeks >= budget {
			return p, false, false
		}
		nearest, ok := in.sets[agreed].Seek(p)
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

// Close closes the sets and returns the errors that ended any of them early.
func (in *Intersection) Close() error { return closeAll(in.sets) }

func closeAll(sets []Set) error {
	var errs []error
	for _, set := range sets {
		errs = append(errs, set.Close())
	}
	return errors.Join(errs...)
}
