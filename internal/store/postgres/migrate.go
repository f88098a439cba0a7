package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A migration is a file NNNN_name.up.sql, and NNNN_name.down.sql undoes it. Numbers
// begin with 1 and leave nothing out. Two versions of the program may run at once
// during an upgrade: a migration adds what the version before it passes over, and
// what nobody reads any more is removed by a later one.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is the advisory lock that lets one node migrate at a time.
const migrationLock = 0x706f737468617374 // "posthast"

// Migrate brings the schema of a database up to date. Several nodes may do so at
// once. A schema that is newer than this program is left alone.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	files, err := migrationFiles("up")
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		version, err := lockSchema(ctx, tx)
		if err != nil {
			return err
		}
		for n := version; n < len(files); n++ {
			if err := migrate(ctx, tx, files[n], n+1); err != nil {
				return err
			}
		}
		return nil
	})
}

// Revert takes the schema back to a version; 0 is before the first.
func Revert(ctx context.Context, pool *pgxpool.Pool, to int) error {
	files, err := migrationFiles("down")
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		version, err := lockSchema(ctx, tx)
		if err != nil {
			return err
		}
		if version > len(files) {
			return fmt.Errorf("the schema has version %d; this program can take back version %d at most", version, len(files))
		}
		for n := version; n > to; n-- {
			if err := migrate(ctx, tx, files[n-1], n-1); err != nil {
				return err
			}
		}
		return nil
	})
}

// migrationFiles lists the files of one direction in the order of their numbers.
func migrationFiles(direction string) ([]string, error) {
	files, err := fs.Glob(migrations, "migrations/*."+direction+".sql")
	slices.Sort(files)
	return files, err
}

// lockSchema waits until no other node migrates, and returns the version of the
// schema: 0 for none.
func lockSchema(ctx context.Context, tx pgx.Tx) (version int, err error) {
	_, err = tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock))
	if err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, `
		CREATE SCHEMA IF NOT EXISTS posthaste;
		CREATE TABLE IF NOT EXISTS posthaste.schema (version integer NOT NULL)`)
	if err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM posthaste.schema`).Scan(&version)
	return version, err
}

// migrate runs a file, after which the schema has a version.
func migrate(ctx context.Context, tx pgx.Tx, file string, version int) error {
	statements, err := migrations.ReadFile(file)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, string(statements)); err != nil {
		return fmt.Errorf("%s: %w", path.Base(file), err)
	}
	if _, err := tx.Exec(ctx, `DELETE FROM posthaste.schema`); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO posthaste.schema VALUES ($1)`, version)
	return err
}
