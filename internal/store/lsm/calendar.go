package lsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/maphash"

	"github.com/cockroachdb/pebble/v2"
)

// The log and its index lie in days, and a page that does not find enough in one goes on to
// the next. The calendar tells which days have events with a term, so that a page by what is
// rare looks into those alone, however long the log is. It lies in weeks: a page reads a few
// keys of each, and retention drops a week when the last of its days is dropped. Until then it
// may name days that are not there any more.
//
// A message's own day is in its id, so only other days with events of it are written down.

// week numbers spans of seven days.
type week uint16

const weekLen = 7 // days

func weekOf(d day) week { return week(d / weekLen) }

// weekDays is a set of days of a week, as bits.
type weekDays uint8

const wholeWeek weekDays = 1<<weekLen - 1

func dayBit(d day) weekDays { return 1 << (d % weekLen) }

// anyTerm stands for all events of a user. It has no postings.
var anyTerm = term{field: fieldAny}

// bornOn returns the day in which the message of a term was made; ok is false if the term is
// of anything else.
func (t term) bornOn() (d day, ok bool) {
	const belowTime = 16 // bits
	return day(int64(t.hash>>belowTime) / dayMS), t.field == fieldMessage
}

func appendCalendarPrefix(key []byte, w week, user string, t term) []byte {
	key = binary.BigEndian.AppendUint16(append(key, kindCalendar), uint16(w))
	return binary.BigEndian.AppendUint64(append(appendUser(key, user), byte(t.field)), t.hash)
}

func appendCalendarKey(key []byte, user string, d day, t term) []byte {
	return binary.BigEndian.AppendUint16(appendCalendarPrefix(key, weekOf(d), user, t), uint16(d))
}

// calendarWriter writes down in which days terms have events. It remembers some of what is
// written, lest each commit writes all of it again, which would do no harm.
type calendarWriter struct {
	seed   maphash.Seed
	recent [4096]postingID // each at the place that its hash tells
	key    []byte          // scratch
}

func newCalendarWriter() *calendarWriter { return &calendarWriter{seed: maphash.MakeSeed()} }

// note writes down that there are events of a term in a day.
func (c *calendarWriter) note(id postingID, set func(key, value []byte)) {
	if born, ok := id.term.bornOn(); ok && born == id.day {
		return
	}
	known := &c.recent[maphash.Comparable(c.seed, id)%uint64(len(c.recent))]
	if *known == id {
		return
	}
	*known = id
	c.key = appendCalendarKey(c.key[:0], id.user, id.day, id.term)
	set(c.key, nil)
}

// forget makes it write down everything again.
func (c *calendarWriter) forget() { clear(c.recent[:]) }

// calendarReader finds the days in which events may match a query.
type calendarReader struct {
	reader      pebble.Reader
	user        string
	terms       [][]term // in any order
	first, last day      // of those that are stored
	direction   direction
	seeks       *int // counts work

	iter *pebble.Iterator // nil until the first week is read
	week week             // that was read last
	days weekDays         // of it
	key  []byte           // scratch
}

// next returns the nearest day behind another one in which events may match; ok is false if
// there is none. When a page has no work left to spend it is the one beside the other.
func (c *calendarReader) next(d day) (next day, ok bool, err error) {
	for {
		if d, ok = c.beside(d); !ok {
			return 0, false, nil
		}
		if *c.seeks >= maxPageSeeks {
			return d, true, nil
		}
		if err := c.turnTo(weekOf(d)); err != nil {
			return 0, false, err
		}
		if c.days&dayBit(d) != 0 {
			return d, true, nil
		}
	}
}

// beside returns the next day in the direction.
func (c *calendarReader) beside(d day) (next day, ok bool) {
	if c.direction == ascending {
		return d + 1, d < c.last
	}
	return d - 1, d > c.first
}

// turnTo reads a week, unless it is the present one.
func (c *calendarReader) turnTo(w week) error {
	if c.iter != nil && w == c.week {
		return nil
	}
	if c.iter == nil {
		iter, err := c.reader.NewIter(&pebble.IterOptions{LowerBound: []byte{kindCalendar}, UpperBound: []byte{kindCalendar + 1}})
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

// daysOf returns the days of the present week that have events of a term.
func (c *calendarReader) daysOf(t term) (days weekDays, err error) {
	*c.seeks++
	if born, ok := t.bornOn(); ok && weekOf(born) == c.week {
		days = dayBit(born)
	}
	c.key = appendCalendarPrefix(c.key[:0], c.week, c.user, t)
	for valid := c.iter.SeekGE(c.key); valid && bytes.HasPrefix(c.iter.Key(), c.key); valid = c.iter.Next() {
		days |= dayBit(day(binary.BigEndian.Uint16(c.iter.Key()[len(c.key):])))
	}
	return days, c.iter.Error()
}

func (c *calendarReader) close() error {
	if c.iter == nil {
		return nil
	}
	return c.iter.Close()
}

func weekPrefix(w week) []byte {
	return binary.BigEndian.AppendUint16([]byte{kindCalendar}, uint16(w))
}

// trimCalendar drops the weeks of a user that have days before another one, and no events.
func (s *Store) trimCalendar(ctx context.Context, user string, end day) error {
	weeks, err := read(s, func() ([]week, error) { return s.emptyWeeks(user, end) })
	if err != nil || len(weeks) == 0 {
		return err
	}
	return s.writer.do(ctx, func(c *commit) error {
		s.writer.calendar.forget() // and what this commit adds is written behind what it drops
		for _, w := range weeks {
			logged, err := s.loggedIn(w, user) // meanwhile
			if err == nil && !logged {
				_, err = s.dropAll(c, appendUser(weekPrefix(w), user))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// emptyWeeks returns the weeks that have days before another one and are in the calendar of a
// user who has no events in them.
func (s *Store) emptyWeeks(user string, end day) (empty []week, err error) {
	weeks, err := numbersBefore(s.db, kindCalendar, weekOf(end)+1)
	for i := 0; i < len(weeks) && err == nil; i++ {
		var noted, logged bool
		if noted, err = exists(s.db, appendUser(weekPrefix(weeks[i]), user)); err == nil && noted {
			logged, err = s.loggedIn(weeks[i], user)
		}
		if noted && !logged {
			empty = append(empty, weeks[i])
		}
	}
	return empty, err
}

// loggedIn reports whether a user has events in a week.
func (s *Store) loggedIn(w week, user string) (logged bool, err error) {
	for d := day(w) * weekLen; weekOf(d) == w && !logged && err == nil; d++ {
		logged, err = exists(s.db, appendSegment(nil, d, segmentLog, user))
	}
	return logged, err
}
