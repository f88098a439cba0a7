package lsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
)

// Numbers of things are kept beside the things, so that telling them takes no look
// at each. A commit gathers by how much they change and writes each once: that of
// events lies in their day, and is dropped with it.

func appendCountKey(key []byte, part byte, user string) []byte {
	return appendUser(append(key, kindCount, part), user)
}

// tally is how a number changes in a commit.
type tally struct {
	change int64
	reset  bool // the stored value no longer counts
}

// count adds to the number that is kept under a key.
func (c *commit) count(key []byte, change int64) { c.tally(key).change += change }

func (c *commit) tally(key []byte) *tally {
	t := c.tallies[string(key)]
	if t == nil {
		t = &tally{}
		c.tallies[string(key)] = t
	}
	return t
}

// writeCounts writes the numbers that have changed.
func (c *commit) writeCounts() error {
	for _, b := range c.log.Blocks {
		c.count(appendSegment(c.key(), dayOf(b.First.Time()), segmentCount, b.User), int64(b.Events))
	}
	for key, t := range c.tallies {
		n := t.change
		if !t.reset {
			stored, err := readCount(c.db, []byte(key))
			if err != nil {
				return fmt.Errorf("count: %w", err)
			}
			n += stored
		}
		if n == 0 {
			c.delete([]byte(key))
		} else {
			c.set([]byte(key), binary.AppendVarint(nil, n))
		}
	}
	return nil
}

// readCount returns the number under a key, 0 if there is none.
func readCount(r pebble.Reader, key []byte) (n int64, err error) {
	err = get(r, key, func(value []byte) (err error) {
		n, err = parseCount(value)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	return n, err
}

func parseCount(value []byte) (int64, error) {
	n, size := binary.Varint(value)
	if size <= 0 {
		return 0, errCorrupt
	}
	return n, nil
}

// Usage implements store.Backend.
func (s *Store) Usage(_ context.Context, user string) (store.Usage, error) {
	var scope []byte // of all users
	if user != "" {
		scope = appendUser(nil, user)
	}
	return read(s, func() (store.Usage, error) {
		usage, err := measure(s.db, scope)
		usage.InFlight = s.scheduler.InFlight(user)
		if user == "" && err == nil {
			usage.Users, err = s.users()
		}
		return usage, err
	})
}

// measure returns what is stored under the keys that continue with a scope after their part.
func measure(db *pebble.DB, scope []byte) (store.Usage, error) {
	iter, err := db.NewIter(nil)
	if err != nil {
		return store.Usage{}, err
	}
	m := &meter{db: db, iter: iter, scope: scope}
	usage := m.usage()
	return usage, errors.Join(m.err, iter.Close())
}

// meter measures what is kept at one moment. After an error its answers mean
// nothing.
type meter struct {
	db    *pebble.DB
	iter  *pebble.Iterator
	scope []byte
	err   error // the first one; the iterator forgets its own when it is moved again
}

func (m *meter) usage() store.Usage {
	var u store.Usage
	m.log(&u)
	u.DeadLetters = m.kept([]byte{kindCount, countedDeadLetters}, []byte{kindDeadLetter},
		deadLetterEntry, deadLetterPosting)
	u.FailedRuns = m.kept([]byte{kindCount, countedFailedRuns}, []byte{kindRun},
		runDeadLetter, runDeadLetterPosting, runDeadLetterID)
	u.Runs = m.kept([]byte{kindCount, countedRuns}, []byte{kindRun},
		runEnvelope, runLatest, runEntry, runMemory, runWaiter, runTopic, runEvent, runPosting)
	return u
}

// log measures day by day. In a day that was dropped there may be messages that are
// alive.
func (m *meter) log(u *store.Usage) {
	start := []byte{kindSegment}
	for m.seek(start) && m.iter.Key()[0] == kindSegment {
		d := day(binary.BigEndian.Uint16(m.iter.Key()[1:]))
		prefix := binary.BigEndian.AppendUint16([]byte{kindSegment}, uint16(d))
		kept := m.kept(append(bytes.Clone(prefix), segmentCount), prefix,
			segmentLog, segmentEnvelope, segmentBody, segmentStatus, segmentResponse,
			segmentPosting, segmentOlder, segmentHour)
		if kept.Entries > 0 {
			u.Days = append(u.Days, store.DayUsage{Start: time.UnixMilli(int64(d) * dayMS).UTC(), KindUsage: kept})
			u.Log.Entries += kept.Entries
			u.Log.Oldest = u.Days[0].Oldest
		}
		u.Log.Bytes += kept.Bytes
		if start = store.PrefixEnd(prefix); start == nil {
			break
		}
	}
	for start = []byte{kindDayIndex}; m.seek(start) && m.iter.Key()[0] == kindDayIndex; {
		week := bytes.Clone(m.iter.Key()[:3])
		u.Log.Bytes += m.bytes(week)
		start = store.PrefixEnd(week)
	}
}

// kept measures one kind of things: their number is at one place, and they consist of
// parts under a prefix, of which the first has them by their positions.
func (m *meter) kept(count, prefix []byte, parts ...byte) store.KindUsage {
	k := store.KindUsage{Entries: m.sum(count)}
	for i, part := range parts {
		place := append(bytes.Clone(prefix), part)
		if i == 0 {
			k.Oldest = m.oldest(place)
		}
		k.Bytes += m.bytes(place)
	}
	return k
}

// within returns the keys of the scope under a place.
func (m *meter) within(place []byte) []byte { return append(bytes.Clone(place), m.scope...) }

// sum adds up the numbers at a place.
func (m *meter) sum(place []byte) (sum int64) {
	prefix := m.within(place)
	for valid := m.seek(prefix); valid && bytes.HasPrefix(m.iter.Key(), prefix); valid = m.moved(m.iter.Next()) {
		n, err := parseCount(m.iter.Value())
		m.note(err)
		sum += n
	}
	return sum
}

// oldest returns the time of the first position at a place, of each user's first.
func (m *meter) oldest(place []byte) (oldest time.Time) {
	prefix := m.within(place)
	for valid := m.seek(prefix); valid && bytes.HasPrefix(m.iter.Key(), prefix); {
		key := m.iter.Key()
		user := len(place) + 1 + int(key[len(place)])
		if at := posthaste.Position(binary.BigEndian.Uint64(key[user:])).Time(); oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
		valid = m.seek(store.PrefixEnd(key[:user]))
	}
	return oldest
}

// bytes estimates what lies at a place on disk, from the first key that is there to
// the last: what was deleted around them takes space only until it is compacted. A block
// counts as a whole, also where others have a part in it. What has not been written to
// its place yet, a few write buffers at most, is not in it.
func (m *meter) bytes(place []byte) int64 {
	prefix := m.within(place)
	if !m.seek(prefix) || !bytes.HasPrefix(m.iter.Key(), prefix) {
		return 0
	}
	first := bytes.Clone(m.iter.Key())
	if !m.moved(m.iter.SeekLT(store.PrefixEnd(prefix))) {
		return 0 // it has failed: there is the first key
	}
	n, err := m.db.EstimateDiskUsage(first, m.iter.Key())
	m.note(err)
	return int64(n)
}

// seek goes to the first key from one on.
func (m *meter) seek(key []byte) bool { return m.moved(m.iter.SeekGE(key)) }

// moved returns whether there is a key where the iterator was moved to. After an error
// there is none any more.
func (m *meter) moved(valid bool) bool {
	m.note(m.iter.Error())
	return valid && m.err == nil
}

func (m *meter) note(err error) {
	if m.err == nil {
		m.err = err
	}
}
