package lsm

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/lsm/postings"
)

// The log and its index are stored by day, and a page that does not find enough in one day
// goes on to the next. The term-day index (a skip index) lists the days that have events with a
// term, so a page by a rare term reads only those days, however long the log is. It is stored by
// week: a page reads a few keys of each, and retention drops a week with the last of its days.
// Until then it may list days that have been dropped.
//
// A message id contains the message's day, so the index lists only other days of that message.

// week numbers spans of seven days.
type week uint16

const weekLen = 7 // days

func weekOf(d day) week { return week(d / weekLen) }

// weekDays is a set of days of a week, as bits.
type weekDays uint8

const wholeWeek weekDays = 1<<weekLen - 1

func dayBit(d day) weekDays { return 1 << (d % weekLen) }

// createdOn returns the day on which the message of a term was created; ok is false if the term
// is not a message id.
func createdOn(t store.Term) (d day, ok bool) {
	created, ok := index.CreatedAt(t)
	return dayOf(created), ok
}

func appendDayIndexPrefix(key []byte, w week, user string, t store.Term) []byte {
	key = binary.BigEndian.AppendUint16(append(key, kindDayIndex), uint16(w))
	return binary.BigEndian.AppendUint64(append(appendUser(key, user), t.Field), t.Hash)
}

func appendDayIndexKey(key []byte, user string, d day, t store.Term) []byte {
	return binary.BigEndian.AppendUint16(appendDayIndexPrefix(key, weekOf(d), user, t), uint16(d))
}

// postingID names the postings of a user's events with a term on one day.
type postingID struct {
	user string
	day  day
	term store.Term
}

// dayIndexWriter adds the days of new events to the index. It knows some of the keys that it wrote
// lately, which avoids most repeated writes; these would be harmless.
type dayIndexWriter struct {
	recent map[postingID]bool
	key    []byte // scratch
}

func newDayIndexWriter() *dayIndexWriter { return &dayIndexWriter{recent: map[postingID]bool{}} }

// note records that a term has events on a day.
func (c *dayIndexWriter) note(id postingID, set func(key, value []byte)) {
	const many = 4096
	created, ok := createdOn(id.term)
	if ok && created == id.day || c.recent[id] {
		return
	}
	if len(c.recent) == many {
		c.forget()
	}
	c.recent[id] = true
	c.key = appendDayIndexKey(c.key[:0], id.user, id.day, id.term)
	set(c.key, nil)
}

// forget makes the next commit write its keys again.
func (c *dayIndexWriter) forget() { clear(c.recent) }

// dayIndexReader finds the days on which events may match a query.
type dayIndexReader struct {
	reader      pebble.Reader
	user        string
	terms       [][]store.Term // in any order
	first, last day            // of those that are stored
	direction   postings.Direction
	seeks       *int // counts work

	iter *pebble.Iterator // nil until the first week is read
	week week             // that was read last
	days weekDays         // of it
	key  []byte           // scratch
}

// next returns the nearest day after another one, in the direction, on which events may match; ok
// is false if there is none. Once the page has used up its reads it returns the adjacent day.
func (c *dayIndexReader) next(d day) (next day, ok bool, err error) {
	for {
		if d, ok = c.adjacent(d); !ok {
			return 0, false, nil
		}
		if *c.seeks >= postings.MaxSeeks {
			return d, true, nil
		}
		if err := c.readWeek(weekOf(d)); err != nil {
			return 0, false, err
		}
		if c.days&dayBit(d) != 0 {
			return d, true, nil
		}
	}
}

// adjacent returns the next day in the direction.
func (c *dayIndexReader) adjacent(d day) (next day, ok bool) {
	if c.direction == postings.Ascending {
		return d + 1, d < c.last
	}
	return d - 1, d > c.first
}

// readWeek reads a week, unless it is the current one.
func (c *dayIndexReader) readWeek(w week) error {
	if c.iter != nil && w == c.week {
		return nil
	}
	if c.iter == nil {
		iter, err := c.reader.NewIter(&pebble.IterOptions{LowerBound: []byte{kindDayIndex}, UpperBound: []byte{kindDayIndex + 1}})
		if err != nil {
			return err
		}
		c.iter = iter
	}
	c.week, c.days = w, wholeWeek
	for i, alternatives := range c.terms {
		var days weekDays
		for _, t := range alternatives {
			has, err := c.daysOf(t)
			if err != nil {
				return err
			}
			days |= has
		}
		if c.days &= days; c.days == 0 {
			c.terms[0], c.terms[i] = c.terms[i], c.terms[0] // it will be the first in the next week
			break
		}
	}
	return nil
}

// daysOf returns the days of the current week that have events with a term.
func (c *dayIndexReader) daysOf(t store.Term) (days weekDays, err error) {
	*c.seeks++
	if created, ok := createdOn(t); ok && weekOf(created) == c.week {
		days = dayBit(created)
	}
	c.key = appendDayIndexPrefix(c.key[:0], c.week, c.user, t)
	for valid := c.iter.SeekGE(c.key); valid && bytes.HasPrefix(c.iter.Key(), c.key); valid = c.iter.Next() {
		days |= dayBit(day(binary.BigEndian.Uint16(c.iter.Key()[len(c.key):])))
	}
	return days, c.iter.Error()
}

func (c *dayIndexReader) close() error {
	if c.iter == nil {
		return nil
	}
	return c.iter.Close()
}

func weekPrefix(w week) []byte {
	return binary.BigEndian.AppendUint16([]byte{kindDayIndex}, uint16(w))
}

// trimDayIndex drops the weeks of a user that have days before another one, and no events.
func (s *Store) trimDayIndex(ctx context.Context, user string, end day) error {
	weeks, err := read(s, func() ([]week, error) { return numbersBefore(s.db, kindDayIndex, weekOf(end)+1) })
	if err != nil || len(weeks) == 0 {
		return err
	}
	return s.writer.do(ctx, func(c *commit) error {
		for _, w := range weeks {
			logged, err := s.loggedIn(w, user)
			if err != nil {
				return err
			}
			if logged {
				continue
			}
			dropped, err := s.dropAll(c, appendUser(weekPrefix(w), user))
			if err != nil {
				return err
			}
			if dropped {
				s.writer.dayIndex.forget() // what this commit adds is written after what it drops
			}
		}
		return nil
	})
}

// loggedIn reports whether a user has events in a week.
func (s *Store) loggedIn(w week, user string) (logged bool, err error) {
	for d := day(w) * weekLen; weekOf(d) == w && !logged && err == nil; d++ {
		prefix := appendSegment(nil, d, segmentLog, user)
		logged, err = anyIn(s.db, keyRange{prefix, store.PrefixEnd(prefix)})
	}
	return logged, err
}
