package lsm

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm/postings"
)

// likelyHours is the set of all positions of a day but those of hours whose counts say that they have
// nothing that matches. Frequent terms without a common event are passed over hour by hour with it,
// instead of block by block. It is asked only once a page has read many blocks, for a count is a key
// and an hour may have many.
type likelyHours struct {
	day       day
	user      string
	filter    *posthaste.Filter
	direction postings.Direction
	seeks     *int // counts work
	from      int  // seeks of a page, from which on hours are looked at

	reader pebble.Reader
	iter   *pebble.Iterator // nil until the first hour is looked at
	known  [24]hourLooks
	failed error
}

type hourLooks uint8

const (
	hourUnknown hourLooks = iota
	hourLikely
	hourUnlikely
)

// countsFrom is how many blocks a page reads before it looks at counts.
const countsFrom = 256

// Seek implements postings.Set.
func (h *likelyHours) Seek(p posthaste.Position) (nearest posthaste.Position, ok bool) {
	if *h.seeks < h.from {
		return p, true
	}
	for hour := hourOfDay(p); hour >= 0 && hour < len(h.known); {
		if dayOf(p.Time()) != h.day || h.likely(hour) {
			return p, h.failed == nil
		}
		if h.direction == postings.Ascending {
			hour++
			p = h.begins(hour)
		} else {
			p = h.begins(hour) - 1
			hour--
		}
	}
	return 0, false
}

// hourOfDay returns the hour of a position.
func hourOfDay(p posthaste.Position) int {
	return int(p.Time().UnixMilli() % dayMS / time.Hour.Milliseconds())
}

// begins returns the first position of an hour.
func (h *likelyHours) begins(hour int) posthaste.Position {
	return posthaste.FirstPosition(time.UnixMilli(int64(h.day)*dayMS + int64(hour)*time.Hour.Milliseconds()))
}

func (h *likelyHours) likely(hour int) bool {
	if h.known[hour] == hourUnknown {
		h.known[hour] = hourUnlikely
		if h.look(hour) || h.failed != nil {
			h.known[hour] = hourLikely
		}
	}
	return h.known[hour] == hourLikely
}

// look reads the counts of an hour until one of them may have what matches. One that cannot be read
// may have anything.
func (h *likelyHours) look(hour int) (likely bool) {
	const countsOfSeek = 16 // that cost about as much as a block
	*h.seeks++
	if h.iter == nil {
		prefix := appendSegment(nil, h.day, segmentHour, h.user)
		if h.iter, h.failed = h.reader.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: store.PrefixEnd(prefix)}); h.failed != nil {
			return false
		}
	}
	prefix := appendHourKey(nil, h.user, int64(h.day)*dayMS+int64(hour)*time.Hour.Milliseconds())
	read := 0
	for valid := h.iter.SeekGE(prefix); valid && !likely && h.iter.Key()[len(prefix)-1] == byte(hour); valid = h.iter.Next() {
		err := decodeCounts(&store.Count{}, string(h.iter.Key()[len(prefix):]), h.iter.Value(), func(c *store.Count) {
			likely = likely || c.MayHave(h.filter)
		})
		likely = likely || err != nil
		if read++; read%countsOfSeek == 0 {
			*h.seeks++
		}
	}
	h.failed = h.iter.Error()
	return likely
}

// Close implements postings.Set.
func (h *likelyHours) Close() error {
	if h.iter == nil {
		return h.failed
	}
	return errors.Join(h.failed, h.iter.Close())
}
