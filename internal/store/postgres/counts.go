package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"posthaste/internal/store"
	"posthaste/internal/store/index"
)

// knownSeries remembers which series of the users' present hours this node has counted, which
// bounds how many there are. After a restart it begins at zero: store.MaxSeries is per hour and node.
type knownSeries struct {
	mu    sync.Mutex
	hours map[string]*hourOfUser
	known int // of all of them, about
}

type hourOfUser struct {
	hour   int64
	series map[string]bool
}

// bounded returns the series that an encoded one is counted by.
func (k *knownSeries) bounded(user string, hour int64, series string) string {
	const large = 1 << 16
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.hours[user]
	if h == nil || h.hour != hour {
		if k.known > large {
			clear(k.hours)
			k.known = 0
		}
		h = &hourOfUser{hour, map[string]bool{}}
		k.hours[user] = h
	}
	series = index.Bounded(series, len(h.series), func(s string) bool { return h.series[s] })
	if !h.series[series] {
		h.series[series] = true
		k.known++
	}
	return series
}

// countOf names a count.
type countOf struct {
	user   string
	hour   int64
	series string
	what   uint16
}

// write counts the events of a transaction.
func (k *knownSeries) write(batch *pgx.Batch, counts []index.Counts) {
	changed := map[countOf]int64{}
	for _, c := range counts {
		series := k.bounded(c.User, c.Hour, c.Series)
		for _, state := range c.Of {
			changed[countOf{c.User, c.Hour, series, state.What}] += state.N
		}
	}
	if len(changed) == 0 {
		return
	}
	rows, n := make([]countOf, 0, len(changed)), make([]int64, 0, len(changed))
	for of, more := range changed {
		rows, n = append(rows, of), append(n, more)
	}
	batch.Queue(`
		INSERT INTO posthaste.counts (user_id, hour, series, what, n)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::integer[], $5::bigint[])
		ON CONFLICT (user_id, hour, series, what) DO UPDATE SET n = counts.n + excluded.n`,
		column(rows, func(c countOf) string { return c.user }),
		column(rows, func(c countOf) int64 { return c.hour }),
		column(rows, func(c countOf) []byte { return []byte(c.series) }),
		column(rows, func(c countOf) int32 { return int32(c.what) }), n)
}

// Counts implements store.Log.
func (s *Store) Counts(ctx context.Context, user string, from, until time.Time, visit func(*store.Count)) error {
	_, err := read(ctx, s, func(ctx context.Context, q querier) (pgconn.CommandTag, error) {
		if err := s.completeIndex(ctx, user); err != nil {
			return pgconn.CommandTag{}, err
		}
		found, err := q.Query(ctx, `
			SELECT hour, series, what, n FROM posthaste.counts
			WHERE user_id = $1 AND hour >= $2 AND hour < $3 ORDER BY hour, series, what`,
			user, from.UnixMilli(), until.UnixMilli())
		if err != nil {
			return pgconn.CommandTag{}, err
		}
		var count store.Count
		var hour int64
		var series []byte
		var what int32
		return pgx.ForEachRow(found, []any{&hour, &series, &what, &count.N}, func() error {
			count.Hour = time.UnixMilli(hour).UTC()
			if err := index.DecodeCount(&count, uint16(what), string(series)); err != nil {
				return err
			}
			visit(&count)
			return nil
		})
	})
	return err
}

// trimCounts removes those of a day, hour by hour, so that an hour is whole or not there. Nobody
// writes there any more, so the user is not locked.
func (s *Store) trimCounts(ctx context.Context, user string, begins time.Time) error {
	for more := true; more; {
		tag, err := s.pool.Exec(ctx, `
			DELETE FROM posthaste.counts WHERE user_id = $1 AND hour = (
				SELECT min(hour) FROM posthaste.counts WHERE user_id = $1 AND hour >= $2 AND hour < $3)`,
			user, begins.UnixMilli(), begins.Add(day).UnixMilli())
		if err != nil {
			return err
		}
		more = tag.RowsAffected() > 0
	}
	return nil
}
