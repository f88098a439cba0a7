package lsm

import (
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste/internal/store"
	"posthaste/internal/store/index"
)

// The events of each hour are counted, by series, in the commit that logs them. See index.Counts.

// hoursWriter keeps what the users' present hours have, so that a commit reads nothing to count.
type hoursWriter struct {
	hours   map[string]*hour // by user
	series  int              // of all of them, about
	dropped map[dayOfUser]bool
}

// hour is what an hour of a user has by now.
type hour struct {
	begins int64 // in Unix milliseconds
	series map[string][]index.StateCount
}

func (h *hour) has(series string) bool { return h.series[series] != nil }

type dayOfUser struct {
	user string
	day  day
}

type seriesOfHour struct {
	*hour
	user, series string
}

func newHoursWriter() *hoursWriter {
	return &hoursWriter{hours: map[string]*hour{}, dropped: map[dayOfUser]bool{}}
}

// write counts the events of a commit.
func (w *hoursWriter) write(c *commit) error {
	if len(c.log.Counts) == 0 {
		clear(w.dropped)
		return nil
	}
	const large = 1 << 14
	if w.series > large { // before the commit: what it has written is not read
		w.forget()
	}
	changed := map[seriesOfHour]bool{}
	for _, counts := range c.log.Counts {
		h, err := w.hour(c.db, counts.User, counts.Hour)
		if err != nil {
			return err
		}
		series := index.Bounded(counts.Series, len(h.series), h.has)
		if !h.has(series) {
			w.series++
		}
		h.series[series] = index.AddStates(h.series[series], counts.Of...)
		changed[seriesOfHour{h, counts.User, series}] = true
	}
	for of := range changed {
		key := append(appendHourKey(c.key(), of.user, of.begins), of.series...)
		c.encoded = index.AppendStates(c.encoded[:0], of.hour.series[of.series])
		c.set(key, c.encoded)
	}
	clear(w.dropped)
	return nil
}

// hour returns an hour of a user.
func (w *hoursWriter) hour(r pebble.Reader, user string, begins int64) (*hour, error) {
	if h := w.hours[user]; h != nil && h.begins == begins {
		return h, nil
	}
	h := &hour{begins, map[string][]index.StateCount{}}
	if !w.dropped[dayOfUser{user, dayOf(time.UnixMilli(begins))}] {
		prefix := appendHourKey(nil, user, begins)
		err := scan(r, prefix, func(key, value []byte) (err error) {
			h.series[string(key[len(prefix):])], err = index.DecodeStates(value)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	w.series += len(h.series)
	w.hours[user] = h
	return h, nil
}

// drop is called when a commit deletes the log of a day.
func (w *hoursWriter) drop(user string, d day) {
	w.dropped[dayOfUser{user, d}] = true
	delete(w.hours, user)
}

// forget makes the writer read what it needs.
func (w *hoursWriter) forget() {
	w.hours, w.series = map[string]*hour{}, 0
}

// appendHourKey makes the beginning of the keys of an hour of a user.
func appendHourKey(key []byte, user string, begins int64) []byte {
	key = appendSegment(key, dayOf(time.UnixMilli(begins)), segmentHour, user)
	return append(key, byte(begins%dayMS/time.Hour.Milliseconds()))
}

// Counts implements store.Log.
func (s *Store) Counts(ctx context.Context, user string, from, until time.Time, visit func(*store.Count)) error {
	_, err := read(s, func() (struct{}, error) {
		days, err := s.daysBefore(dayOf(until.Add(-1)) + 1)
		for _, d := range days {
			if err == nil && d >= dayOf(from) {
				err = errors.Join(s.countsOfDay(d, user, from, until, visit), ctx.Err())
			}
		}
		return struct{}{}, err
	})
	return err
}

func (s *Store) countsOfDay(d day, user string, from, until time.Time, visit func(*store.Count)) error {
	prefix := appendSegment(nil, d, segmentHour, user)
	begins := time.UnixMilli(int64(d) * dayMS).UTC()
	return scan(s.db, prefix, func(key, value []byte) error {
		count := store.Count{Hour: begins.Add(time.Duration(key[len(prefix)]) * time.Hour)}
		if count.Hour.Before(from) || !count.Hour.Before(until) {
			return nil
		}
		return decodeCounts(&count, string(key[len(prefix)+1:]), value, visit)
	})
}

func decodeCounts(count *store.Count, series string, value []byte, visit func(*store.Count)) error {
	states, err := index.DecodeStates(value)
	for _, state := range states {
		if err == nil {
			if err = index.DecodeCount(count, state.What, series); err == nil {
				count.N = state.N
				visit(count)
			}
		}
	}
	return err
}
