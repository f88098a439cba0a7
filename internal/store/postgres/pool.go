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
)

// callTime is how long a call waits for a database that has fallen silent. What a
// database that is there cannot do in this time has no use for the caller any more.
const callTime = leaseTime

// A connection takes connectTime at most. One at rest whose other end has gone without a
// word is noticed by the system within three keepAlive, or when it is used within
// pingTime.
const (
	connectTime = 5 * time.Second
	keepAlive   = 3 * time.Second
	pingTime    = 2 * time.Second
)

// errURL leaves out what is wrong with a URL, for that would show a part of it.
var errURL = errors.New("it cannot be read: postgres://USER:PASSWORD@HOST:PORT/DATABASE is accepted")

// vitalConnections are those of a node that are kept for saying that it lives, and for
// hearing what others have committed: under however long a queue for the others, it is
// not taken for dead.
const controlConnections = 2

// newPool returns connections of this node, of which none is made yet.
func newPool(ctx context.Context, url string, connections int32) (*pgxpool.Pool, error) {
	config, err := poolConfig(url, connections)
	if err != nil {
		return nil, err
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// dial returns a connection for a tool, which is no node. Nothing is prepared on it, so
// that any pooler may lie between.
func dial(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := poolConfig(url, 1)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	return pgxpool.NewWithConfig(ctx, config)
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

// knowTypes names the type of what does not say it, for statements that are not prepared.
func knowTypes(_ context.Context, conn *pgx.Conn) error {
	conn.TypeMap().RegisterDefaultPgType([16]byte{}, "uuid")
	conn.TypeMap().RegisterDefaultPgType([][16]byte{}, "_uuid")
	return nil
}

// unavailable marks an error that tells nothing of what was asked for, only that the
// database cannot be asked now, or did not say what became of it.
func unavailable(err error) error {
	if err == nil || !isUnavailable(err) {
		return err
	}
	if said, ok := errors.AsType[*pgconn.PgError](err); ok && isUnknownStatement(said.Code) {
		err = fmt.Errorf("a pooler lies between that does not follow prepared statements: add default_query_exec_mode=exec to the URL of the database: %w", err)
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

// passing are the classes of what a database says while it starts, ends, or has more
// to do than it can; a class is the first two letters of a code.
var transientClasses = []string{
	"08", // connection exception
	"40", // transaction rollback: another one was in its way
	"53", // insufficient resources
	"57", // operator intervention: it starts, is shut down, or was promoted
	"58", // system error
}

// isPassing reports whether the database may say another thing a moment later. That it ended
// a transaction it had heard nothing of is in class 25, the only such code there; that this
// one is a standby, which refuses writes, is another; that a lock was not to be had in time is
// a third. The missing partition of a day is made the next time.
func isTransient(code string) bool {
	const silent, readOnly, locked = "25P03", "25006", "55P03"
	return code == silent || code == readOnly || code == locked || code == noPartition || isUnknownStatement(code) || slices.Contains(transientClasses, code[:min(2, len(code))])
}

// isUnfollowed reports whether the database has said that a statement which was prepared is
// not there, or one that was not is: a pooler asked another connection than before.
func isUnknownStatement(code string) bool {
	const invalidStatementName, duplicateStatement = "26000", "42P05"
	return code == invalidStatementName || code == duplicateStatement
}
