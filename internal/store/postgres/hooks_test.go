package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/store"
)

// EventsBetween is Events with something that happens before each of its statements.
func (s *Store) EventsBetween(ctx context.Context, user string, query store.EventQuery, happens func()) (store.EventPage, error) {
	r := &logReader{ctx: ctx, q: disturbed{s.pool, happens}, user: user, query: query}
	err := r.run()
	return r.page, err
}

// disturbed is a querier that does something else first.
type disturbed struct {
	querier
	happens func()
}

// Query implements querier.
func (d disturbed) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	d.happens()
	return d.querier.Query(ctx, sql, args...)
}
