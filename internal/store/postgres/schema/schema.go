// Package schema makes the tables of a database, brings them up to date, and says where they stand.
package schema

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Schema is where the schema of a database stands, and which programs go with it.
type Schema struct {
	Version int         `json:"version"` // 0: there is nothing
	Needs   int         `json:"needs"`   // the version that a program must know at least
	Known   int         `json:"known"`   // the version that this program knows
	Nodes   []KnownNode `json:"nodes"`   // that live

	Partitions int `json:"partitions"` // into how many users are divided
	Undivided  int `json:"undivided"`  // users that still have fewer
}

// KnownNode is a node and which version of the schema its program knows.
type KnownNode struct {
	Node  int64 `json:"node"`
	Known int   `json:"known"`
}

// Querier is a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Read returns where the schema of a database stands, which may be older or newer than this
// program. It changes nothing.
func Read(ctx context.Context, q Querier) (Schema, error) {
	at, err := find(ctx, q)
	if err != nil {
		return at, err
	}
	at.Known = len(Migrations)
	found, err := q.Query(ctx, `
		SELECT node, known FROM posthaste.nodes WHERE expires_at > clock_timestamp() ORDER BY node`)
	if err != nil {
		return at, err
	}
	if at.Nodes, err = pgx.CollectRows(found, pgx.RowToStructByPos[KnownNode]); err != nil {
		return at, err
	}
	return at, q.QueryRow(ctx, `
		WITH of AS (SELECT coalesce(max(partitions), 1) AS partitions FROM posthaste.divisions)
		SELECT of.partitions, (SELECT count(DISTINCT split_part(user_id, chr(1), 1)) FROM posthaste.users u WHERE u.partitions < of.partitions)
		FROM of`).Scan(&at.Partitions, &at.Undivided)
}

// errNone says that nothing is kept in a database.
var errNone = errors.New("no server has ever used this database: it has no schema posthaste")

// find returns where the schema of a database stands, or errNone.
func find(ctx context.Context, q Querier) (at Schema, err error) {
	var exists bool
	if err := q.QueryRow(ctx, `SELECT to_regclass('posthaste.schema') IS NOT NULL`).Scan(&exists); err != nil {
		return at, err
	}
	if exists {
		at, err = read(ctx, q)
	}
	if err == nil && at.Version == 0 {
		err = errNone
	}
	return at, err
}

// read returns where the schema of a database stands that has its table.
func read(ctx context.Context, q Querier) (at Schema, err error) {
	err = q.QueryRow(ctx, `SELECT coalesce(max(version), 0), coalesce(max(needs), 0) FROM posthaste.schema`).Scan(&at.Version, &at.Needs)
	return at, err
}

// Check returns an error unless the schema of a database is the one of this program. It changes
// nothing.
func (m Migrator) Check(ctx context.Context, q Querier) error {
	at, err := find(ctx, q)
	if err == nil && at.Version != len(m) {
		err = fmt.Errorf("the schema of the database has version %d, this program has version %d: use the program that served it last", at.Version, len(m))
	}
	return err
}
