package postgres

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste/internal/store/postgres/schema"
)

// callTime is how long a call waits for an unresponsive database.
const callTime = 10 * time.Second

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
