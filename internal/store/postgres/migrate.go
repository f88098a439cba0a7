package postgres

import (
	"context"
	_ "embed" // for migrations
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed migrations/0001_initial.sql
var initial string

// migrations are those of this program.
var migrations = migrator{{statements: initial, needs: 1}}

// A migrator knows the migrations of a program in order, none of which is ever changed or
// removed after its release. How many there are is the version of the schema.
type migrator []migration

// A migration brings the schema to the next version. Two versions of the program may run at
// once during an upgrade: a migration adds what the version before it passes over, and what
// nobody reads any more is removed by a later one.
type migration struct {
	statements string
	needs      int // the version of the schema that a program must know to work with what it leaves behind
}

// migrationLock is the advisory lock that lets one node migrate at a time.
const migrationLock = 0x706f737468617374 // "posthast"

// migrationWait is how long a migration waits for a lock. One that does not get it is tried
// again as a whole.
const migrationWait = "3s"

// schema is where that of a database stands.
type schema struct {
	version int // 0: there is nothing
	needs   int // the version that a program must know at least
}

// up brings the schema of a database up to date. Several nodes may do so at once. A schema
// that is newer than the program is left alone, and is an error if the program is too old
// for it.
func (m migrator) up(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		now, err := lockSchema(ctx, tx)
		if err != nil {
			return err
		}
		if now.version >= len(m) {
			return now.serves(len(m))
		}
		for _, next := range m[now.version:] {
			now = schema{now.version + 1, max(now.needs, next.needs)}
			if _, err := tx.Exec(ctx, next.statements); err != nil {
				return fmt.Errorf("migrate to version %d: %w", now.version, err)
			}
		}
		if _, err := tx.Exec(ctx, `DELETE FROM posthaste.schema`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO posthaste.schema (version, needs) VALUES ($1, $2)`, now.version, now.needs); err != nil {
			return err
		}
		return now.servesNodes(ctx, tx)
	})
}

// lockSchema waits until no other node migrates, and returns where the schema stands. A
// lock that somebody keeps, who dumps the database for instance, is not waited for in the
// rest of the transaction for longer than migrationWait: all who come later would wait, too.
func lockSchema(ctx context.Context, tx pgx.Tx) (schema, error) {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock))
	if err != nil {
		return schema{}, err
	}
	_, err = tx.Exec(ctx, `
		SET LOCAL lock_timeout = '`+migrationWait+`';
		CREATE SCHEMA IF NOT EXISTS posthaste;
		CREATE TABLE IF NOT EXISTS posthaste.schema (version integer NOT NULL, needs integer NOT NULL)`)
	if err != nil {
		return schema{}, err
	}
	return readSchema(ctx, tx)
}

// readSchema returns where the schema of a database stands that has its table.
func readSchema(ctx context.Context, q querier) (schema, error) {
	return row(ctx, q, func(r pgx.CollectableRow) (at schema, err error) {
		err = r.Scan(&at.version, &at.needs)
		return at, err
	}, `SELECT coalesce(max(version), 0), coalesce(max(needs), 0) FROM posthaste.schema`)
}

// serves returns an error unless the schema serves a program that knows a version.
func (s schema) serves(known int) error {
	if known >= s.needs {
		return nil
	}
	return fmt.Errorf("the schema of the database has version %d and serves programs that know version %d; this one knows version %d: start a newer version of posthaste",
		s.version, s.needs, known)
}

// servesNodes returns an error unless the schema serves the nodes that live.
func (s schema) servesNodes(ctx context.Context, tx pgx.Tx) error {
	var known int // by the oldest
	err := tx.QueryRow(ctx, `
		SELECT coalesce(min(known), $1) FROM posthaste.nodes WHERE expires_at > clock_timestamp()`, s.needs).Scan(&known)
	if err != nil || known >= s.needs {
		return err
	}
	return fmt.Errorf("a node is running that knows version %d of the schema, and version %d serves those that know %d: stop it, or upgrade to the versions in between first",
		known, s.version, s.needs)
}
