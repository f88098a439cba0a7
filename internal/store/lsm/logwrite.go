package lsm

import (
	"encoding/binary"

	"posthaste/internal/store/index"
)

// writeLog adds the blocks and postings of all events to the batch.
func (c *commit) writeLog(dayIndex *dayIndexWriter) {
	for i := range c.log.Blocks {
		b := &c.log.Blocks[i]
		dayIndex.note(postingID{b.User, dayOf(b.First.Time()), index.Any}, c.set)
		c.set(appendPositionKey(c.key(), segmentLog, b.User, b.First), b.Data)
	}
	for i := range c.log.Postings {
		p := &c.log.Postings[i]
		id := postingID{p.User, dayOf(p.First.Time()), p.Term}
		dayIndex.note(id, c.set)
		c.set(binary.BigEndian.AppendUint64(appendPostingPrefix(c.key(), id.day, id.user, id.term), uint64(p.First)), p.Gaps)
	}
}

// each returns what of makes of each value.
func each[T, U any](values []T, of func(T) U) []U {
	all := make([]U, len(values))
	for i, value := range values {
		all[i] = of(value)
	}
	return all
}
