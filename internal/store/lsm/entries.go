package lsm

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
)

// Dead letters and runs come and go one by one, so each of their terms is a key of its own.

// entryList is the set of positions that the keys with a prefix end in.
type entryList struct {
	keys      *blockSeeker
	direction direction
	seeks     *int
	gaps      *gaps              // nil if positions are added anywhere
	known     []gap              // of this set
	visible   posthaste.Position // what is added has a position above it
}

func (l *entryList) seek(p posthaste.Position) (nearest posthaste.Position, ok bool) {
	*l.seeks++
	before := l.keys.stepped()
	nearest, ok = l.jump(p)
	if l.gaps != nil && l.keys.failed == nil && l.keys.stepped()-before >= gapSteps {
		l.remember(p, nearest, ok)
	}
	return nearest, ok
}

// jump returns what seek does. It steps over what is deleted between known gaps only.
func (l *entryList) jump(p posthaste.Position) (nearest posthaste.Position, ok bool) {
	for at := l.direction.nearestGap(l.known, p); at >= 0 && at < len(l.known); {
		near, far := l.known[at].low, l.known[at].high
		if l.direction == descending {
			near, far = far, near
		}
		if l.direction.nearer(p, near) && l.keys.nearest(p, l.direction, &near) {
			return l.keys.first(), true
		}
		if p, ok = l.direction.after(far); !ok {
			return 0, false
		}
		at = l.direction.nearestGap(l.known, p)
	}
	if !l.keys.nearest(p, l.direction, nil) {
		return 0, false
	}
	return l.keys.first(), true
}

// remember notes that there is nothing from p to the nearest position, or to the end.
func (l *entryList) remember(p, nearest posthaste.Position, ok bool) {
	found := gap{p, l.visible}
	switch {
	case l.direction == ascending && ok:
		found.high = nearest - 1
	case l.direction == descending:
		found = gap{0, p}
		if ok {
			found.low = nearest + 1
		}
	}
	if found.low <= found.high {
		l.known = l.gaps.add(l.keys.prefix, found)
	}
}

func (l *entryList) close() error { return l.keys.close() }

// entries opens sets of positions of which each has a key of its own.
type entries struct {
	reader    pebble.Reader
	direction direction
	gaps      *gaps
	visible   posthaste.Position
}

// browse lends what is stored now to who reads a page of it in one direction, unless the range
// is empty. What is not durable is above the range: high is lowered for that.
func (s *Store) browse(low posthaste.Position, high *posthaste.Position, dir direction, read func(*entries) error) (err error) {
	done, err := s.reading()
	if err != nil {
		return err
	}
	defer done(&err)
	visible := s.visible()
	if *high = min(*high, visible); low > *high {
		return nil
	}
	snapshot := s.db.NewSnapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	return read(&entries{snapshot, dir, &s.gaps, visible})
}

// open opens the set of the keys with a prefix. With anywhere, what is added to it may
// lie among what is there.
func (e *entries) open(prefix []byte, seeks *int, anywhere bool) (positionSet, error) {
	keys, err := newBlockSeeker(e.reader, prefix)
	if err != nil {
		return nil, err
	}
	list := &entryList{keys: keys, direction: e.direction, seeks: seeks, visible: e.visible}
	if !anywhere {
		list.gaps, list.known = e.gaps, e.gaps.get(prefix)
	}
	return list, nil
}
