package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste/internal/store"
	"posthaste/internal/store/postgres/schema"
)

// callTime is how long a call waits for an unresponsive database.
const callTime = leaseTime

// Connecting takes connectTime at most. A dead idle connection is noticed after three
// keepAlive, or within pingTime when it is used.
const (
	connectTime = 5 * time.Second
	keepAlive   = 3 * time.Second
	pingTime    = 2 * time.Second
)

// errURL does not quote the URL, which may hold a password.
var errURL = errors.New("it cannot be read: postgres://USER:PASSWORD@HOST:PORT/DATABASE is accepted")

// controlConnections are reserved for heartbeats and for polling commits: a node that is busy
// is not taken for dead.
const controlConnections = 2

// newPool returns a pool that connects on demand. tracer may be nil.
func newPool(ctx context.Context, url string, connections int32, tracer pgx.QueryTracer) (*pgxpool.Pool, error) {
	config, err := poolConfig(url, connections)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.Tracer = tracer
	return pgxpool.NewWithConfig(ctx, config)
}

// dial returns a connection for a tool, which is no node. It prepares no statements, so that
// any pooler may lie between.
func dial(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := poolConfig(url, 1)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	return pgxpool.NewWithConfig(ctx, config)
}

// ReadSchema returns where the schema of a database stands.
func ReadSchema(ctx context.Context, url string) (at schema.Schema, err error) {
	pool, err := dial(ctx, url)
	if err != nil {
		return at, err
	}
	defer pool.Close()
	return schema.Read(ctx, pool)
}

func poolConfig(url string, connections int32) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errURL
	}
	config.MaxConns = connections
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive, Count: 2}}
	config.ConnConfig.DialFunc = dialer.DialContext
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTime
	}
	config.PingTimeout = pingTime
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "posthaste"
	}
	config.AfterConnect = knowTypes
	return config, nil
}

// knowTypes names the types of ids, for statements that are not prepared.
func knowTypes(_ context.Context, conn *pgx.Conn) error {
	conn.TypeMap().RegisterDefaultPgType([16]byte{}, "uuid")
	conn.TypeMap().RegisterDefaultPgType([][16]byte{}, "_uuid")
	return nil
}

// unavailable marks errors that say nothing about the request: the database cannot be asked
// now, or its answer was lost.
func unavailable(err error) error {
	if err == nil || !isUnavailable(err) {
		return err
	}
	if said, ok := errors.AsType[*pgconn.PgError](err); ok && isUnknownStatement(said.Code) {
		err = fmt.Errorf("a pooler between does not track prepared statements: add default_query_exec_mode=exec to the URL of the database: %w", err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

func isUnavailable(err error) bool {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		return isTransient(said.Code)
	}
	if errors.Is(err, errInDoubt) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	if errors.Is(err, pgconn.ErrReadOnlyConnection) || errors.Is(err, pgconn.ErrStandbyConnection) {
		return true // another one is becoming the primary
	}
	_, network := errors.AsType[net.Error](err)
	return network || pgconn.SafeToRetry(err)
}

// transientClasses are SQLSTATE classes of a database that starts, stops or is overloaded.
var transientClasses = []string{
	"08", // connection exception
	"40", // transaction rollback: another one was in its way
	"53", // insufficient resources
	"57", // operator intervention: it starts, is shut down, or was promoted
	"58", // system error
}

// isTransient reports whether a retry may succeed: also after an idle transaction was ended,
// on a standby, after a lock timeout, and for want of a partition.
func isTransient(code string) bool {
	const idleTransaction, readOnly, lockTimeout = "25P03", "25006", "55P03"
	return code == idleTransaction || code == readOnly || code == lockTimeout || code == noPartition || isUnknownStatement(code) || slices.Contains(transientClasses, code[:min(2, len(code))])
}

// isUnknownStatement reports a pooler that does not track prepared statements.
func isUnknownStatement(code string) bool {
	const invalidStatementName, duplicateStatement = "26000", "42P05"
	return code == invalidStatementName || code == duplicateStatement
}
