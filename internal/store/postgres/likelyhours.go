package postgres

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
)

const (
	countsFrom = 1024 // events that a page looks at before it looks at counts
	countsRead = 2000 // counts that are read together
)

// skipUnlikely moves a search that found nothing to the next hour that may have what matches, by its
// counts: frequent values that no event has together are passed over hour by hour. more is whether
// there is one.
func (r *logReader) skipUnlikely(s *search) (more bool, err error) {
	at := beyond(s.last, r.query.OldestFirst)
	if r.scanned < countsFrom || !store.CountsTell(&r.query.Filter) || hourBegins(at) == s.likely {
		return true, nil
	}
	hour, found, err := r.likelyHour(hourBegins(at))
	if err != nil || !found {
		return false, err
	}
	s.likely = hour
	if hour != hourBegins(at) {
		r.skipTo(s, hour)
	}
	return true, nil
}

// hourBegins returns when the hour of a position begins, in Unix milliseconds.
func hourBegins(p posthaste.Position) int64 { return p.Time().UTC().Truncate(time.Hour).UnixMilli() }

// likelyHour returns the nearest hour from one on that may have what matches. That is also one whose
// counts were not all read.
func (r *logReader) likelyHour(from int64) (hour int64, found bool, err error) {
	low, high := hourBegins(r.query.Low), from
	if r.query.OldestFirst {
		low, high = from, hourBegins(r.query.High)
	}
	counted, err := r.q.Query(r.ctx, `
		SELECT hour, series, what FROM posthaste.counts WHERE user_id = $1 AND hour BETWEEN $2 AND $3
		ORDER BY hour `+direction(r.query.OldestFirst)+` LIMIT $4`, r.user, low, high, countsRead)
	if err != nil {
		return 0, false, err
	}
	var series []byte
	var what int32
	read, last := 0, int64(0)
	_, err = pgx.ForEachRow(counted, []any{&last, &series, &what}, func() error {
		read++
		var c store.Count
		if !found && (index.DecodeCount(&c, uint16(what), string(series)) != nil || c.MayHave(&r.query.Filter)) {
			hour, found = last, true
		}
		return nil
	})
	if read == countsRead && !found {
		return last, true, err
	}
	return hour, found, err
}

// skipTo moves a search to an hour.
func (r *logReader) skipTo(s *search, hour int64) {
	to := posthaste.FirstPosition(time.UnixMilli(hour).Add(time.Hour)) - 1
	if r.query.OldestFirst { // a posting may begin before the hour
		to = posthaste.FirstPosition(time.UnixMilli(hour))
		to -= min(to, index.MaxSpan)
	}
	passed := func(at posthaste.Position) bool { return r.nearer(at, to) }
	s.leads.ready = slices.DeleteFunc(s.leads.ready, passed)
	for _, l := range s.leads.lists {
		l.unused = slices.DeleteFunc(l.unused, passed)
		if r.nearer(l.cursor, to) {
			l.cursor = to
		}
		if r.nearer(l.reached, to) {
			l.reached = to
		}
	}
	r.merge(s.leads)
}
