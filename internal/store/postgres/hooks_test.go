package postgres

import (
	"context"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste/internal/store"
)

// PrepareAgain lets new connections prepare statements again, as if nothing had spoken
// against it so far, and leaves those that there are.
func (s *Store) PrepareAgain() {
	s.statements.unprepared.Store(false)
	s.pool.Reset()
	s.vital.Reset()
}

// Prepares reports whether new connections prepare statements.
func (s *Store) Prepares() bool { return !s.statements.unprepared.Load() }

// OpenWith is Open for a program that knows other migrations.
func OpenWith(ctx context.Context, url string, files fs.FS, options Options) (*Store, error) {
	options.migrations = files
	return Open(ctx, url, options)
}

// WithPatience are options of a store whose Claim waits so long for turns that somebody
// else has.
func (o Options) WithPatience(d time.Duration) Options {
	o.patience = d
	return o
}

// WithClock are options of a node whose clock is ahead of what it says.
func (o Options) WithClock(ahead func() time.Duration) Options {
	o.wrong = ahead
	return o
}

// Hurry lets a turn begin one change only.
func (s *Store) Hurry() { s.turns.short = 1 }

// InLine returns how many changes of a user wait for a turn.
func (s *Store) InLine(user string) int {
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	return len(s.turns.waiting[user])
}

// RevertWith is Revert for a program that knows other migrations.
func RevertWith(ctx context.Context, pool *pgxpool.Pool, files fs.FS, to int) error {
	return migrator{files}.down(ctx, pool, to)
}

// Migrations are those of this program.
func Migrations() fs.FS { return migrations }

// EventsBetween is Events with something that happens before each of its statements.
func (s *Store) EventsBetween(ctx context.Context, user string, query store.EventQuery, happens func()) (store.EventPage, error) {
	r := &logReader{ctx: ctx, q: disturbed{s.pool, happens}, user: user, query: query, room: store.NewPageRoom(query.Bytes)}
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

// CompareLeases compares once the leases of this node with what it holds.
func (s *Store) CompareLeases() { s.giveBackUnheld() }
