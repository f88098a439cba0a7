package lsm

import (
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
)

// The log index is read through cursors over sorted sets of positions. All of
// them run in one direction and answer one question: the nearest position of the
// set at or beyond another. Lists are united by asking each; sets are
// intersected by letting them overtake one another (leapfrog).

// direction is the order in which a query reads the log.
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

// after returns the position right behind p in the direction; ok is false at
// the end of all positions.
func (d direction) after(p posthaste.Position) (next posthaste.Position, ok bool) {
	if d == ascending {
		return p + 1, p < posthaste.MaxPosition
	}
	return p - 1, p > 0
}

// blockSeeker finds blocks by position among keys that share a prefix and end
// in the block's first position.
type blockSeeker struct {
	iter   *pebble.Iterator
	prefix []byte
	key    []byte // scratch
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
	return b.iter.SeekLT(b.key)
}

// first returns the first position of the present block.
func (b *blockSeeker) first() posthaste.Position {
	return posthaste.Position(binary.BigEndian.Uint64(b.iter.Key()[len(b.prefix):]))
}

func (b *blockSeeker) close() error { return b.iter.Close() }

// postingList is the set of positions of one term within one day.
type postingList struct {
	blocks    *blockSeeker
	direction direction
	block     []posthaste.Position // ascending; nil before the first seek
	end       bool
	seeks     *int // counts work
}

func newPostingList(r pebble.Reader, d day, user string, t term, dir direction, seeks *int) (*postingList, error) {
	blocks, err := newBlockSeeker(r, appendPostingPrefix(nil, d, user, t))
	if err != nil {
		return nil, err
	}
	return &postingList{blocks: blocks, direction: dir, seeks: seeks}, nil
}

// seek returns the nearest position at or beyond p. ok is false when there is
// none, or when reading failed: see blocks.iter.Error.
func (l *postingList) seek(p posthaste.Position) (nearest posthaste.Position, ok bool) {
	if l.end {
		return 0, false
	}
	if len(l.block) == 0 || p < l.block[0] || p > l.block[len(l.block)-1] {
		*l.seeks++
		if !l.load(p) {
			l.end = true
			return 0, false
		}
	}
	at, found := slices.BinarySearch(l.block, p)
	if !found && l.direction == descending {
		at--
	}
	return l.block[at], true
}

// load reads the block that holds the nearest position at or beyond p.
func (l *postingList) load(p posthaste.Position) bool {
	if l.blocks.at(p) {
		l.decode()
		if l.direction == descending || p <= l.block[len(l.block)-1] {
			return true
		}
		if !l.blocks.iter.Next() {
			return false
		}
	} else if l.direction == descending || !l.blocks.iter.First() {
		return false
	}
	l.decode()
	return true
}

func (l *postingList) decode() {
	position := l.blocks.first()
	l.block = append(l.block[:0], position)
	for data := l.blocks.iter.Value(); len(data) > 0; {
		delta, n := binary.Uvarint(data)
		if n <= 0 {
			return
		}
		position += posthaste.Position(delta)
		l.block = append(l.block, position)
		data = data[n:]
	}
}

func (l *postingList) close() error { return l.blocks.close() }

// union is the set of positions that any of its lists has.
type union struct {
	lists     []*postingList
	direction direction
}

func (u *union) seek(p posthaste.Position) (nearest posthaste.Position, ok bool) {
	for _, list := range u.lists {
		at, found := list.seek(p)
		if found && (!ok || u.direction.nearer(at, nearest)) {
			nearest, ok = at, true
		}
	}
	return nearest, ok
}

// intersection is the set of positions that all of its unions have.
type intersection struct {
	unions    []*union
	direction direction
	seeks     int // block reads so far
}

// intersect opens the sets of positions of one day that a filter's terms select.
func intersect(r pebble.Reader, d day, user string, terms [][]term, dir direction) (*intersection, error) {
	in := &intersection{direction: dir}
	for _, values := range terms {
		u := &union{direction: dir}
		in.unions = append(in.unions, u)
		for _, t := range values {
			list, err := newPostingList(r, d, user, t, dir, &in.seeks)
			if err != nil {
				_ = in.close()
				return nil, err
			}
			u.lists = append(u.lists, list)
		}
	}
	return in, nil
}

// seek returns the nearest common position at or beyond p. When it has read
// budget blocks without finding one it stops: found is false, and every position
// nearer than at is known not to be common.
func (in *intersection) seek(p posthaste.Position, budget int) (at posthaste.Position, found, end bool) {
	for agreed := 0; agreed < len(in.unions); {
		if in.seeks >= budget {
			return p, false, false
		}
		nearest, ok := in.unions[agreed].seek(p)
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
	var first error
	for _, u := range in.unions {
		for _, list := range u.lists {
			if err := list.close(); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}
