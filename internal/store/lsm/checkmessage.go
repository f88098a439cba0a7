package lsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/lsm/lanes"
	"posthaste/internal/store/record"
)

// checkedMessage is as much of a message as other records are compared with.
type checkedMessage struct {
	*posthaste.Message // without its body
	status             status
}

// message returns a message and where it stands.
func (c *checker) message(user string, id posthaste.MessageID) (*checkedMessage, error) {
	key := messageID{user, id}
	if m := c.messages[key]; m != nil {
		return m, nil
	}
	m := &checkedMessage{}
	var err error
	m.Message, _, err = readEnvelope(c.db, user, id)
	if err == nil {
		m.status, err = readStatus(c.db, user, id)
	}
	if err != nil {
		return nil, fmt.Errorf("message %s: %w", id, err)
	}
	const many = 4096
	if len(c.messages) >= many {
		clear(c.messages)
	}
	c.messages[key] = m
	return m, nil
}

// waiting: what waits is a message that has not ended, and its place is the one that its
// status tells.
func (c *checker) waiting(key, value []byte) error {
	lane, place, ok := parseWaitingKey(key)
	if !ok {
		return errCorrupt
	}
	w, err := parseWaiting(value)
	if err != nil {
		return err
	}
	m, err := c.message(lane.User, place.ID)
	if err != nil {
		return err
	}
	c.report.Waiting++
	switch {
	case laneOf(m.Message) != lane:
		return fmt.Errorf("message %s waits in another lane than its own", m.ID)
	case w.Ended:
		return nil // its callbacks keep the place
	case m.status.state.Terminal():
		return fmt.Errorf("message %s waits and is %s", m.ID, m.status.state)
	case m.status.order != place.Order || m.status.Waiting != w:
		return fmt.Errorf("message %s waits at another place than its status says", m.ID)
	}
	return nil
}

// status: a message that has not ended waits.
func (c *checker) status(user string, id posthaste.MessageID) error {
	m, err := c.message(user, id)
	if err != nil {
		return err
	}
	c.report.Messages++
	if m.status.state.Terminal() {
		return nil
	}
	return c.exists(appendWaitingKey(nil, laneOf(m.Message), lanes.Spot{Order: m.status.order, ID: id}), "message %s is %s and does not wait", id, m.status.state)
}

// segment looks at a key of a day.
func (c *checker) segment(key, value []byte) error {
	if len(key) < 5 {
		return errCorrupt
	}
	if d := day(binary.BigEndian.Uint16(key[1:])); d != c.day {
		c.endDay()
		c.day = d
	}
	user, tail, err := userKey(key[4:])
	if err != nil {
		return err
	}
	switch key[3] {
	case segmentEnvelope, segmentBody, segmentStatus, segmentOlder:
		return c.messagePart(key[3], user, tail, value)
	case segmentLog:
		return c.logBlock(user, tail, value)
	case segmentPosting:
		return c.posting(user, tail, value)
	case segmentResponse:
		_, err := record.DecodeResponse(value)
		return err
	case segmentCount:
		return c.count(key, value)
	case segmentHour:
		if len(tail) == 0 {
			return errCorrupt
		}
		return c.hour(user, tail, value)
	default:
		return errors.New("keys of this part of a day are not known")
	}
}

func (c *checker) messagePart(part byte, user string, tail, value []byte) error {
	if len(tail) != len(posthaste.MessageID{}) {
		return errCorrupt
	}
	id := posthaste.MessageID(tail)
	switch part {
	case segmentEnvelope:
		if err := c.body(user, id, value); err != nil {
			return err
		}
		return c.exists(appendMessageKey(nil, segmentStatus, user, id), "message %s has no status", id)
	case segmentStatus:
		return c.status(user, id)
	case segmentOlder:
		_, err := c.message(user, id)
		return err
	default:
		return c.exists(appendMessageKey(nil, segmentEnvelope, user, id), "body of message %s, which is not there", id)
	}
}

// body: what is not within the envelope is where that says. The list of a run may have
// been removed with the run.
func (c *checker) body(user string, id posthaste.MessageID, value []byte) error {
	if len(value) == 0 {
		return errCorrupt
	}
	if value[0] != bodyBeside {
		return nil
	}
	return c.exists(appendMessageKey(nil, segmentBody, user, id), "body of message %s", id)
}

// hour looks at the counts of a series.
func (c *checker) hour(user string, tail, value []byte) error {
	begins, series := int64(c.day)*dayMS+int64(tail[0])*time.Hour.Milliseconds(), string(tail[1:])
	states, err := index.DecodeStates(value)
	for _, of := range states {
		err = errors.Join(err, index.DecodeCount(&store.Count{}, of.What, series))
		c.counts[c.hoursOf(user)] -= of.N
		c.series.Count(user, begins, series, of)
	}
	return err
}

// endDay compares the counts of the current day with its events.
func (c *checker) endDay() {
	tooMany := c.series.TooMany()
	if c.unread {
		clear(tooMany)
	}
	for user, hours := range tooMany {
		for hour := range hours {
			c.report.Add("log of user %q: the hour from %s has fewer events of a series than are counted", user, time.UnixMilli(hour).UTC().Format(time.RFC3339))
		}
	}
	clear(c.series)
	c.unread = false
}

// hoursOf names how many events are counted in the hours of the present day.
func (c *checker) hoursOf(user string) string {
	return string(appendSegment(nil, c.day, segmentHour, user))
}

func (c *checker) logBlock(user string, tail, value []byte) error {
	first, err := parsePosition(tail)
	if err != nil {
		return err
	}
	events, err := index.DecodeBlock(first, value, nil)
	if err != nil {
		return err
	}
	for _, event := range events {
		m, err := c.message(user, event.MessageID)
		if err != nil {
			c.unread = true
			return fmt.Errorf("event at %d: %w", event.Position, err)
		}
		if event.Position > c.last {
			return fmt.Errorf("event at %d is behind %d, where the log ends", event.Position, c.last)
		}
		c.indexed(c.logOf(user), event.Position, index.AppendEvent(nil, m.Message, &event))
		if !event.State.OfRun() {
			c.counts[c.hoursOf(user)]++
			c.series.Event(m.Message, &event)
		}
	}
	c.counts[string(appendSegment(nil, c.day, segmentCount, user))] += int64(len(events))
	c.report.Events += int64(len(events))
	return c.noted(user, index.Any)
}

func (c *checker) posting(user string, tail, value []byte) error {
	t, at, err := parsePosting(tail)
	if err != nil {
		return err
	}
	positions, err := index.DecodePosting(nil, at, value)
	if err != nil {
		return err
	}
	for _, at := range positions {
		c.agree(c.logOf(user), -postingHash(t, at))
	}
	return c.noted(user, t)
}

// logOf names the log of a user on the current day.
func (c *checker) logOf(user string) string {
	return fmt.Sprintf("log of user %q on %s", user, time.UnixMilli(int64(c.day)*dayMS).UTC().Format(time.DateOnly))
}

// parsePosting reads a term and a position.
func parsePosting(tail []byte) (t store.Term, at posthaste.Position, err error) {
	if len(tail) != 1+8+8 {
		return t, 0, errCorrupt
	}
	t = store.Term{Field: tail[0], Hash: binary.BigEndian.Uint64(tail[1:])}
	return t, posthaste.Position(binary.BigEndian.Uint64(tail[9:])), nil
}

// noted returns an error unless the day index lists the current day for a term. Terms must be
// passed in order.
func (c *checker) noted(user string, t store.Term) error {
	id := postingID{user, c.day, t}
	if created, ok := createdOn(t); ok && created == id.day || id == c.lastNoted {
		return nil
	}
	c.lastNoted = id
	return c.exists(appendDayIndexKey(nil, user, id.day, t), "the day index lacks a day")
}

// checkDayIndexKey: a day lies in its week. It may have been dropped.
func checkDayIndexKey(key []byte) error {
	if len(key) < 3 {
		return errCorrupt
	}
	_, tail, err := userKey(key[3:])
	if err == nil && (len(tail) != 1+8+2 || weekOf(day(binary.BigEndian.Uint16(tail[9:]))) != week(binary.BigEndian.Uint16(key[1:]))) {
		err = errCorrupt
	}
	return err
}

// postingHash mixes a term with a position, so that a sum of them shows whether two sets
// are the same.
func postingHash(t store.Term, at posthaste.Position) uint64 {
	var data [17]byte
	data[0] = t.Field
	binary.BigEndian.PutUint64(data[1:], t.Hash)
	binary.BigEndian.PutUint64(data[9:], uint64(at))
	return xxhash.Sum64(data[:])
}

// lonePosting is a posting that stands alone: a term and a position.
func (c *checker) lonePosting(name string, tail []byte) error {
	t, at, err := parsePosting(tail)
	if err != nil {
		return err
	}
	c.agree(name, -postingHash(t, at))
	return nil
}

// indexed notes that something at a position is to be found by the terms.
func (c *checker) indexed(name string, at posthaste.Position, terms []store.Term) {
	for i, t := range terms {
		if !slices.Contains(terms[:i], t) {
			c.agree(name, postingHash(t, at))
		}
	}
}

// count compares a number with what is counted, before or after.
func (c *checker) count(key, value []byte) error {
	n, err := parseCount(value)
	c.counts[string(key)] -= n
	return err
}
