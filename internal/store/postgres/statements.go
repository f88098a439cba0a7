package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// statements is how the connections of a node send theirs: prepared once for each
// connection, until it turns out that a pooler lies between which does not follow that.
// From then on nothing is prepared that another transaction would have to find.
type statements struct {
	unprepared atomic.Bool
	logger     *slog.Logger
}

// govern lets connections that are made by a configuration obey, unless the URL says how
// they send statements.
func (s *statements) govern(config *pgxpool.Config) {
	if config.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		s.unprepared.Store(true)
		return
	}
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		if s.unprepared.Load() {
			c.DefaultQueryExecMode = pgx.QueryExecModeExec
		}
		return nil
	}
	config.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) {
		return !s.unprepared.Load() || conn.Config().DefaultQueryExecMode == pgx.QueryExecModeExec, nil
	}
	usual := config.ConnConfig.OnPgError
	config.ConnConfig.OnPgError = func(conn *pgconn.PgConn, said *pgconn.PgError) bool {
		if !isUnfollowed(said.Code) {
			return usual(conn, said)
		}
		s.prepareNoMore()
		return false
	}
}

// isUnfollowed reports whether the database has said that a statement which was prepared is
// not there, or one that was not is: what it says was not told to this connection alone.
func isUnfollowed(code string) bool {
	const invalidStatementName, duplicateStatement = "26000", "42P05"
	return code == invalidStatementName || code == duplicateStatement
}

func (s *statements) prepareNoMore() {
	if s.unprepared.CompareAndSwap(false, true) {
		s.logger.Info("database.unprepared", "reason", "a pooler lies between that does not follow prepared statements")
	}
}

// probe finds out whether two connections find again what they have prepared, each its
// own. A pooler may give each transaction the connection to the database that was used
// last, or one after the other; the pauses see to it that either shows.
func (s *statements) probe(ctx context.Context, one, other *pgxpool.Pool) error {
	if s.unprepared.Load() {
		return nil
	}
	here, err := one.Acquire(ctx)
	if err != nil {
		return err
	}
	defer here.Release()
	there, err := other.Acquire(ctx)
	if err != nil {
		return err
	}
	defer there.Release()
	for pauses := range 3 {
		err := probeOnce(ctx, here.Conn(), there.Conn(), fmt.Sprintf("posthaste_probe_%d", pauses), pauses)
		if said, ok := errors.AsType[*pgconn.PgError](err); ok && isUnfollowed(said.Code) {
			return nil // and all connections know
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// probeOnce prepares a statement by one name on both connections, and uses that of the
// first.
func probeOnce(ctx context.Context, here, there *pgx.Conn, name string, pauses int) error {
	const anything = `SELECT`
	if _, err := here.Prepare(ctx, name, anything); err != nil {
		return err
	}
	for range pauses {
		if err := there.Ping(ctx); err != nil {
			return err
		}
	}
	if _, err := there.Prepare(ctx, name, anything); err != nil {
		return err
	}
	_, err := here.Exec(ctx, name)
	return err
}
