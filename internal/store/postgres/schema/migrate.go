package schema

import (
	"context"
	_ "embed" // for migrations
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed migrations/0001_initial.sql
var initial string

// Migrations are those of this program.
var Migrations = Migrator{{Statements: initial, Needs: 1}}

// A Migrator knows the migrations of a program in order, none of which is ever changed or
// removed after its release. How many there are is the version of the schema.
type Migrator []Migration

// A Migration brings the schema to the next version. Two versions of the program may run at
// once during an upgrade: a migration adds what the version before it passes over, and what
// nobody reads any more is removed by a later one.
type Migration struct {
	Statements string
	Needs      int // the version of the schema that a program must know to work with what it leaves behind
}

// Lock is the advisory lock that lets one node at a time change tables.
const Lock = 0x706f737468617374 // "posthast"

// wait is how long a migration waits for a lock. One that does not get it is tried again as a whole.
const wait = "3s"

// Committed are the options of transactions: whatever the database's defaults are, each statement
// sees what was committed before it, such as while it waited for a lock.
var Committed = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// Up brings the schema of a database up to date. Several nodes may do so at once. A schema
// that is newer than the program is left alone, and is an error if the program is too old
// for it.
func (m Migrator) Up(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginTxFunc(ctx, pool, Committed, func(tx pgx.Tx) error {
		at, err := lock(ctx, tx)
		if err != nil {
			return err
		}
		if at.Version >= len(m) {
			return at.serves(len(m))
		}
		for _, next := range m[at.Version:] {
			at.Version, at.Needs = at.Version+1, max(at.Needs, next.Needs)
			if _, err := tx.Exec(ctx, next.Statements); err != nil {
				return fmt.Errorf("migrate to version %d: %w", at.Version, err)
			}
		}
		if _, err := tx.Exec(ctx, `DELETE FROM posthaste.schema`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO posthaste.schema (version, needs) VALUES ($1, $2)`, at.Version, at.Needs); err != nil {
			return err
		}
		return at.servesNodes(ctx, tx)
	})
}

// lock waits until no other node migrates, and returns where the schema stands. A lock that
// somebody keeps, who dumps the database for instance, is not waited for in the rest of the
// transaction for longer than wait: all who come later would wait, too.
func lock(ctx context.Context, tx pgx.Tx) (at Schema, err error) {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(Lock)); err != nil {
		return at, err
	}
	// what is there already is not created if it does not exist: that takes the right to create it
	_, err = tx.Exec(ctx, `
		SET LOCAL lock_timeout = '`+wait+`';
		DO $$ BEGIN
			IF to_regnamespace('posthaste') IS NULL THEN CREATE SCHEMA posthaste; END IF;
			IF to_regclass('posthaste.schema') IS NULL THEN CREATE TABLE posthaste.schema (version integer NOT NULL, needs integer NOT NULL); END IF;
		END $$`)
	if err != nil {
		return at, err
	}
	return read(ctx, tx)
}

// serves returns an error unless the schema serves a program that knows a version.
func (s Schema) serves(known int) error {
	if known >= s.Needs {
		return nil
	}
	return fmt.Errorf("the schema of the database has version %d and serves programs that know version %d; this one knows version %d: start a newer version of posthaste",
		s.Version, s.Needs, known)
}

// servesNodes returns an error unless the schema serves the nodes that live.
func (s Schema) servesNodes(ctx context.Context, tx pgx.Tx) error {
	var known int // by the oldest
	err := tx.QueryRow(ctx, `
		SELECT coalesce(min(known), $1) FROM posthaste.nodes WHERE expires_at > clock_timestamp()`, s.Needs).Scan(&known)
	if err != nil || known >= s.Needs {
		return err
	}
	return fmt.Errorf("a node is running that knows version %d of the schema, and version %d serves those that know %d: stop it, or upgrade to the versions in between first",
		known, s.Version, s.Needs)
}
