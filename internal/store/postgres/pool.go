package postgres

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
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
