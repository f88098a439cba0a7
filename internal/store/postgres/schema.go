package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Schema is where the schema of a database stands, and which programs go with it.
type Schema struct {
	Version int         `json:"version"`
	Needs   int         `json:"needs"` // the version that a program must know at least
	Known   int         `json:"known"` // the version that this program knows
	Nodes   []KnownNode `json:"nodes"` // that live
}

// KnownNode is a node and which version of the schema its program knows.
type KnownNode struct {
	Node  int64 `json:"node"`
	Known int   `json:"known"`
}

// ReadSchema returns where the schema of a database stands, which may be older or newer
// than this program. It changes nothing.
func ReadSchema(ctx context.Context, url string) (at Schema, err error) {
	pool, err := dial(ctx, url)
	if err != nil {
		return at, err
	}
	defer pool.Close()
	now, err := findSchema(ctx, pool)
	if err != nil {
		return at, err
	}
	at.Version, at.Needs, at.Known = now.version, now.needs, len(migrations)
	at.Nodes, err = rows(ctx, pool, pgx.RowToStructByPos[KnownNode], `
		SELECT node, known FROM posthaste.nodes WHERE expires_at > clock_timestamp() ORDER BY node`)
	return at, err
}

// errNoSchema says that nothing is kept in a database.
var errNoSchema = errors.New("no server has ever used this database: it has no schema posthaste")

// findSchema returns where the schema of a database stands, or errNoSchema.
func findSchema(ctx context.Context, q querier) (schema, error) {
	exists, err := row(ctx, q, pgx.RowTo[bool], `SELECT to_regclass('posthaste.schema') IS NOT NULL`)
	if err != nil {
		return schema{}, err
	}
	if !exists {
		return schema{}, errNoSchema
	}
	now, err := readSchema(ctx, q)
	if err == nil && now.version == 0 {
		err = errNoSchema
	}
	return now, err
}

// check returns an error unless the schema of a database is the one of this program. It
// changes nothing.
func (m migrator) check(ctx context.Context, q querier) error {
	now, err := findSchema(ctx, q)
	if err == nil && now.version != len(m) {
		err = fmt.Errorf("the schema of the database has version %d, this program has version %d: use the program that served it last", now.version, len(m))
	}
	return err
}
