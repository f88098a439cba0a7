package lsm

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// Accept implements store.Acceptor.
func (s *Store) Accept(ctx context.Context, now time.Time, submissions []store.Submission) ([]store.Accepted, error) {
	if err := s.reserve.check(); err != nil {
		return nil, err
	}
	arrivals := make([]arrival, len(submissions))
	for i, submission := range submissions {
		var err error
		if arrivals[i], err = newArrival(submission); err != nil {
			return nil, err
		}
	}
	var accepted []store.Accepted
	err := s.writer.do(ctx, func(c *commit) (err error) {
		if accepted, err = s.prepare(c, now, arrivals); err != nil {
			return err
		}
		for i := range arrivals {
			if !accepted[i].Deduplicated {
				s.accept(c, now, &arrivals[i])
			}
		}
		return nil
	})
	return answer(&accepted, err)
}

// arrival is a submission that is ready to be written.
type arrival struct {
	store.Submission
	envelopes [][]byte
}

func newArrival(submission store.Submission) (arrival, error) {
	a := arrival{Submission: submission, envelopes: make([][]byte, len(submission.Messages))}
	for i, m := range submission.Messages {
		if len(m.User) > maxUserLen {
			return arrival{}, fmt.Errorf("user id of %d bytes: at most %d fit", len(m.User), maxUserLen)
		}
		a.envelopes[i] = encodeEnvelope(m)
	}
	return a, nil
}

// newMessages makes an arrival of messages that nobody submitted, and reads what
// accept needs for it.
func (s *Store) newMessages(c *commit, messages []*posthaste.Message) (arrival, error) {
	for _, m := range messages {
		if err := s.loadLimits(c, m); err != nil {
			return arrival{}, err
		}
	}
	return newArrival(store.Submission{Messages: messages})
}

// An envelope begins with a byte that says where the body is.
const (
	bodyWithin byte = iota
	bodyBeside
	bodyInRun // it is an entry of the run's list
)

func encodeEnvelope(m *posthaste.Message) []byte { return appendEnvelope(nil, m) }

func appendEnvelope(dst []byte, m *posthaste.Message) []byte {
	place := bodyWithin
	switch {
	case isEntry(m):
		place = bodyInRun
	case len(m.Body) >= largeBody:
		place = bodyBeside
	}
	if place != bodyWithin {
		bare := *m
		bare.Body = nil
		m = &bare
	}
	return record.AppendMessage(append(dst, place), m)
}

// isEntry reports whether a message is an entry of its run's list, which holds its
// body.
func isEntry(m *posthaste.Message) bool {
	return m.Run != nil && m.Run.CallType != posthaste.CallFailure
}

// prepare reads all that accept needs, and finds the repeated submissions.
func (s *Store) prepare(c *commit, now time.Time, arrivals []arrival) ([]store.Accepted, error) {
	accepted := make([]store.Accepted, len(arrivals))
	here := map[submitted][]posthaste.MessageID{} // within this call
	for i := range arrivals {
		a := &arrivals[i]
		earlier, err := here[a.submitted()], error(nil)
		if earlier == nil {
			earlier, err = s.earlier(c, now, a)
		}
		if err != nil {
			return nil, err
		}
		if earlier != nil {
			accepted[i] = store.Accepted{IDs: earlier, Deduplicated: true}
			continue
		}
		accepted[i] = store.Accepted{IDs: a.IDs()}
		if a.DedupKey != "" {
			here[a.submitted()] = accepted[i].IDs
		}
		for _, m := range a.Messages {
			if err := s.loadLimits(c, m); err != nil {
				return nil, err
			}
		}
	}
	return accepted, nil
}

func (s *Store) accept(c *commit, now time.Time, a *arrival) {
	for i, m := range a.Messages {
		s.acceptMessage(c, now, m, a.envelopes[i])
	}
	if a.DedupKey != "" {
		s.remember(c, now, a)
	}
}

func (s *Store) acceptMessage(c *commit, now time.Time, m *posthaste.Message, envelope []byte) {
	c.set(appendMessageKey(c.key(), segmentEnvelope, m.User, m.ID), envelope)
	if len(m.Body) >= largeBody && !isEntry(m) {
		c.set(appendMessageKey(c.key(), segmentBody, m.User, m.ID), m.Body)
	}
	order := posthaste.FirstPosition(m.NotBefore)
	if at := c.event(m, now, store.Created(m)); m.Queue != "" {
		order = max(order, at)
	}
	s.followLimits(c, now, m)
	s.wait(c, m, status{
		state:   posthaste.StateCreated,
		order:   order,
		waiting: newWaiting(m),
	})
}

// wait writes that a message waits, and adds it to its lane when that is durable.
func (s *Store) wait(c *commit, m *posthaste.Message, st status) {
	s.setWaiting(c, m, st)
	c.after(func() { s.scheduler.add(laneOf(m), newItem(m, st)) })
}

// setWaiting writes that a message waits.
func (s *Store) setWaiting(c *commit, m *posthaste.Message, st status) {
	c.setStatus(m, st)
	c.set(appendWaitingKey(c.key(), laneOf(m), ticket{st.order, m.ID}), st.waiting.append(nil))
}

func newItem(m *posthaste.Message, st status) *item {
	return &item{ticket: ticket{st.order, m.ID}, message: m, waiting: st.waiting}
}

func laneOf(m *posthaste.Message) laneID { return laneID{m.User, m.Lane()} }

// Submissions are remembered in the day they were accepted in, so that they are
// forgotten with it. The key is hashed: it may be of any length.

// submitted names a submission of a user.
type submitted struct{ user, dedupID string }

// submitted returns nothing for one without a key.
func (a *arrival) submitted() submitted {
	if a.DedupKey == "" {
		return submitted{}
	}
	return submitted{a.Messages[0].User, a.dedupID()}
}

func (a *arrival) dedupID() string {
	if a.DedupKey == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(a.DedupKey))
	return string(sum[:16])
}

func appendDedupKey(key []byte, d day, user, dedupID string) []byte {
	return append(appendSegment(key, d, segmentDedup, user), dedupID...)
}

func (s *Store) remember(c *commit, now time.Time, a *arrival) {
	value := binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli()))
	for _, m := range a.Messages {
		value = append(value, m.ID[:]...)
	}
	key := appendDedupKey(nil, dayOf(now), a.Messages[0].User, a.dedupID())
	c.dedups[string(key)] = value
	c.set(key, value)
}

// earlier returns the ids of the submission that this one repeats, or nil.
func (s *Store) earlier(c *commit, now time.Time, a *arrival) (ids []posthaste.MessageID, err error) {
	if a.DedupKey == "" {
		return nil, nil
	}
	for _, at := range []time.Time{now, now.Add(-store.DedupWindow)} {
		key := appendDedupKey(nil, dayOf(at), a.Messages[0].User, a.dedupID())
		value := c.dedups[string(key)]
		if value == nil {
			err = get(c.db, key, func(data []byte) error {
				value = append(value, data...)
				return nil
			})
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
		}
		if value == nil {
			continue
		}
		submitted, ids, err := parseSubmission(value)
		if err != nil {
			return nil, err
		}
		if now.Sub(submitted) < store.DedupWindow {
			if undelivered, err := c.undelivered(a.Messages[0].User, ids); undelivered || err != nil {
				return nil, err
			}
			return ids, nil
		}
	}
	return nil, nil
}

// undelivered reports whether all of some messages have ended without delivery. What is
// not there any more has left no reason to think so.
func (c *commit) undelivered(user string, ids []posthaste.MessageID) (bool, error) {
	for _, id := range ids {
		st, err := c.status(user, id)
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		if err != nil || !store.Undelivered(st.state) {
			return false, err
		}
	}
	return true, nil
}

// parseSubmission reads what remember writes: when something was submitted, and its ids.
func parseSubmission(data []byte) (submitted time.Time, ids []posthaste.MessageID, err error) {
	const size = len(posthaste.MessageID{})
	if len(data) < 8+size || (len(data)-8)%size != 0 {
		return time.Time{}, nil, errCorrupt
	}
	for rest := data[8:]; len(rest) > 0; rest = rest[size:] {
		ids = append(ids, posthaste.MessageID(rest[:size]))
	}
	return milliTime(int64(binary.BigEndian.Uint64(data))), ids, nil
}

// Message implements store.MessageReader.
func (s *Store) Message(_ context.Context, user string, id posthaste.MessageID) (_ store.Status, err error) {
	done, err := s.reading()
	if err != nil {
		return store.Status{}, err
	}
	defer done(&err)
	st, err := readStatus(s.db, user, id)
	if err != nil {
		return store.Status{}, err
	}
	m, err := readMessage(s.db, user, id)
	if err != nil {
		return store.Status{}, err
	}
	result := store.Status{Message: m, State: st.state, Retried: st.retried}
	switch {
	case st.state.Terminal():
	case s.scheduler.claimed(id):
		result.State = posthaste.StateActive
	default:
		result.NextAttemptAt = milliTime(st.readyMS)
	}
	return result, nil
}
