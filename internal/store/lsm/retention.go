package lsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/lsm/postings"
	"posthaste/internal/store/record"
)

// Retention drops a day as a few ranges. It keeps messages that have not ended, which have a place
// in a lane, and messages with events in a later day, which are listed there.

// users returns those that have anything that Usage counts, or flow-control keys.
func (s *Store) users() ([]string, error) {
	found := map[string]bool{}
	weeks, err := numbersBefore(s.db, kindDayIndex, maxWeek) // each user with events is in the index
	for _, w := range weeks {
		err = errors.Join(err, s.usersUnder(weekPrefix(w), found))
	}
	for _, counted := range []byte{countedDeadLetters, countedFailedRuns, countedRuns} {
		err = errors.Join(err, s.usersUnder([]byte{kindCount, counted}, found))
	}
	err = errors.Join(err, s.usersUnder([]byte{kindFlowKey}, found))
	return slices.Sorted(maps.Keys(found)), err
}

const (
	maxDay  = day(1<<16 - 1)
	maxWeek = week(1<<16 - 1)
)

// usersUnder adds those whose keys go on with them behind a prefix.
func (s *Store) usersUnder(prefix []byte, found map[string]bool) error {
	return skip(s.db, prefix, func(key []byte) []byte {
		userLen := int(key[len(prefix)])
		found[string(key[len(prefix)+1:len(prefix)+1+userLen])] = true
		return store.PrefixEnd(key[:len(prefix)+1+userLen])
	})
}

// daysBefore returns the days before another one that have anything stored.
func (s *Store) daysBefore(end day) ([]day, error) { return numbersBefore(s.db, kindSegment, end) }

// numbersBefore returns the days or weeks before another one that keys of a kind begin with, in
// order.
func numbersBefore[T day | week](r pebble.Reader, kind byte, end T) (found []T, err error) {
	err = skip(r, []byte{kind}, func(key []byte) []byte {
		n := T(binary.BigEndian.Uint16(key[1:]))
		if n >= end {
			return nil
		}
		found = append(found, n)
		return binary.BigEndian.AppendUint16([]byte{kind}, uint16(n)+1)
	})
	return found, err
}

// anyIn reports whether there are keys in a range.
func anyIn(r pebble.Reader, keys keyRange) (bool, error) {
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: keys.from, UpperBound: keys.to})
	if err != nil {
		return false, err
	}
	found := iter.First()
	return found, errors.Join(iter.Error(), iter.Close())
}

// skip visits keys with a prefix: the first one, and then always the first at or
// behind what visit returns, until that is nil.
func skip(r pebble.Reader, prefix []byte, visit func(key []byte) (next []byte)) error {
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: store.PrefixEnd(prefix)})
	if err != nil {
		return err
	}
	for valid := iter.First(); valid; {
		next := visit(iter.Key())
		valid = next != nil && iter.SeekGE(next)
	}
	return errors.Join(iter.Error(), iter.Close())
}

// DropDays implements store.Backend. It drops the newest day first: an event is never older than
// its message, so at no time is one without it.
func (s *Store) DropDays(ctx context.Context, user string, before time.Time) (dropped int, err error) {
	end := dayOf(before)
	days, err := read(s, func() ([]day, error) { return s.daysBefore(end) })
	if err != nil {
		return 0, err
	}
	if len(days) == 0 {
		return 0, s.trimDayIndex(ctx, user, end)
	}
	needed, err := read(s, func() (map[day][]posthaste.MessageID, error) { return s.needed(user, end) })
	if err != nil {
		return 0, err
	}
	for _, d := range slices.Backward(days) {
		logged, err := s.dropDay(ctx, d, user, needed[d])
		if logged {
			dropped++
		}
		if err != nil {
			return dropped, err
		}
	}
	return dropped, s.trimDayIndex(ctx, user, end)
}

// needed returns the messages of a user from before a day that have not ended, have
// events in that day or later, or began a run that is active, each once and ascending.
// None can join them meanwhile: a message has its events while it is alive, or while
// its run is.
func (s *Store) needed(user string, end day) (map[day][]posthaste.MessageID, error) {
	needed := map[day][]posthaste.MessageID{}
	add := func(id posthaste.MessageID) {
		if d := dayOf(id.CreatedAt()); d < end {
			needed[d] = append(needed[d], id)
		}
	}
	err := scan(s.db, appendUser([]byte{kindWaiting}, user), func(key, _ []byte) error {
		if len(key) >= spotLen { // else it is damaged
			add(parseSpot(key).ID)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// A run that ends after this is among them, and the event of one that ended before
	// is found below.
	if err := s.beginnings(user, end, add); err != nil {
		return nil, err
	}
	days, err := s.daysBefore(maxDay)
	if err != nil {
		return nil, err
	}
	for _, d := range days {
		if d < end {
			continue
		}
		err := scan(s.db, appendSegment(nil, d, segmentOlder, user), func(key, _ []byte) error {
			add(posthaste.MessageID(key[len(key)-len(posthaste.MessageID{}):]))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for d, ids := range needed {
		slices.SortFunc(ids, compareIDs)
		needed[d] = slices.Compact(ids)
	}
	return needed, nil
}

// beginnings adds the first messages of the active runs from before a day: what becomes of a run is
// logged as an event of that message, which may be in another partition.
func (s *Store) beginnings(user string, end day, add func(posthaste.MessageID)) error {
	query := store.FindQuery{
		Kind: store.ItemRun, Terms: [][]store.Term{{index.RunState(posthaste.RunStarted)}},
		High: posthaste.FirstPosition(time.UnixMilli(int64(end)*dayMS)) - 1, OldestFirst: true,
	}
	for _, partition := range s.partitions.All(store.UserOf(user)) {
		_, _, err := find(s.db, partition, &query, func(_ posthaste.Position, value []byte) (bool, error) {
			run, err := record.DecodeRunItem(partition, value)
			if err == nil {
				add(run.FirstID)
			}
			return false, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// dropDay deletes all that a user has in a day, but for the messages that are
// needed. It reports whether the day had events. The needed ones may be very many, and so may
// be the others between them: these are looked for outside of commits, and each commit
// deletes some. The events go with the first of them, so that none is without its message.
func (s *Store) dropDay(ctx context.Context, d day, user string, needed []posthaste.MessageID) (logged bool, err error) {
	envelopes := appendSegment(nil, d, segmentEnvelope, user)
	for from := envelopes; from != nil; {
		between, err := read(s, func() (*messagesBetween, error) { return s.messagesBetween(envelopes, from, needed) })
		if err != nil {
			return logged, err
		}
		err = s.writer.do(ctx, func(c *commit) error {
			if err := between.drop(c, d, user); err != nil || !bytes.Equal(from, envelopes) {
				return err
			}
			logged, err = s.dropLog(c, d, user)
			return err
		})
		if err != nil {
			return logged, err
		}
		from = between.next
	}
	return logged, nil
}

// dropLog deletes the events that a user has in a day, and what belongs to them.
func (s *Store) dropLog(c *commit, d day, user string) (logged bool, err error) {
	for _, part := range []byte{segmentResponse, segmentPosting, segmentOlder, segmentHour, segmentLog} {
		prefix := appendSegment(nil, d, part, user)
		if logged, err = s.dropAll(c, prefix); err != nil {
			return false, err
		}
	}
	if logged { // the log is the last of them
		c.after(s.writer.tail.forget)
		c.tally(appendSegment(c.key(), d, segmentCount, user)).reset = true
		s.writer.hours.drop(user, d)
	}
	return logged, nil
}

// messagesBetween are some of the messages of a day between those that are kept.
type messagesBetween struct {
	spans []messageSpan
	next  []byte // the envelope from which on there are others, nil if there are none
}

// messageSpan is one message, or the messages from it on and before another if that is not zero.
type messageSpan struct{ from, before posthaste.MessageID }

// behindAll is no message: all are before it.
var behindAll = posthaste.MessageID(bytes.Repeat([]byte{0xff}, len(posthaste.MessageID{})))

// mostSteps is about how many messages and ranges of them a commit deletes, less those that are
// kept between them.
const mostSteps = 1000

// messagesBetween looks for the messages from an envelope on that are not among the
// ascending ones that are kept.
func (s *Store) messagesBetween(envelopes, from []byte, kept []posthaste.MessageID) (*messagesBetween, error) {
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: store.PrefixEnd(envelopes)})
	if err != nil {
		return nil, err
	}
	b := &messagesBetween{}
	valid, passed := iter.First(), 0
	for valid && passed+len(b.spans) < mostSteps {
		at, isKept := slices.BinarySearchFunc(kept, idOf(iter), compareIDs)
		switch {
		case isKept:
			passed++
			valid = iter.Next()
		case at < len(kept):
			valid = b.add(iter, envelopes, kept[at])
		default:
			valid = b.add(iter, envelopes, behindAll)
		}
	}
	if valid {
		b.next = slices.Clone(iter.Key())
	}
	return b, errors.Join(iter.Error(), iter.Close())
}

// add adds the messages from where an iterator is to another, and moves it there. It reports
// whether there are any from there on.
func (b *messagesBetween) add(iter *pebble.Iterator, envelopes []byte, to posthaste.MessageID) (valid bool) {
	begun := len(b.spans)
	for valid = true; valid && compareIDs(idOf(iter), to) < 0; valid = iter.Next() {
		if len(b.spans)-begun == postings.FewInARow {
			b.spans = append(b.spans[:begun], messageSpan{b.spans[begun].from, to})
			return iter.SeekGE(append(slices.Clone(envelopes), to[:]...))
		}
		b.spans = append(b.spans, messageSpan{from: idOf(iter)})
	}
	return valid
}

// drop deletes all of them: a message is there as a whole or not at all.
func (b *messagesBetween) drop(c *commit, d day, user string) error {
	for _, part := range []byte{segmentEnvelope, segmentBody, segmentStatus} {
		prefix := appendSegment(nil, d, part, user)
		key := func(id posthaste.MessageID) []byte { return append(slices.Clone(prefix), id[:]...) }
		for _, span := range b.spans {
			err := error(nil)
			if span.before == (posthaste.MessageID{}) {
				err = c.batch.Delete(key(span.from), nil)
			} else {
				err = c.batch.DeleteRange(key(span.from), key(span.before), nil)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// idOf returns the message whose envelope an iterator is at.
func idOf(iter *pebble.Iterator) posthaste.MessageID {
	key := iter.Key()
	return posthaste.MessageID(key[len(key)-len(posthaste.MessageID{}):])
}

func compareIDs(a, b posthaste.MessageID) int { return bytes.Compare(a[:], b[:]) }

// dropAll deletes the keys with a prefix, and writes nothing if there are none.
func (s *Store) dropAll(c *commit, prefix []byte) (found bool, err error) {
	if found, err = anyIn(s.db, keyRange{prefix, store.PrefixEnd(prefix)}); err != nil || !found {
		return false, err
	}
	return true, c.batch.DeleteRange(prefix, store.PrefixEnd(prefix), nil)
}
