package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A migration is a file NNNN_name.up.sql, and NNNN_name.down.sql undoes it. Numbers
// begin with 1 and leave nothing out; that of the last one is the version of the schema.
// Two versions of the program may run at once during an upgrade: a migration adds what
// the version before it passes over, and what nobody reads any more is removed by a later
// one. Its first line says which version of the schema a program must know at least to
// work with what it leaves behind.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is the advisory lock that lets one node migrate at a time.
const migrationLock = 0x706f737468617374 // "posthast"

// migrationWait is how long a migration waits for a lock. One that does not get it is tried
// again as a whole.
const migrationWait = "3s"

// Migrate brings the schema of a database up to date. Several nodes may do so at
// once. A schema that is newer than this program is left alone, and is an error if this
// program is too old for it.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	return migrator{migrations}.up(ctx, pool)
}

// migrator knows the migrations of a program.
type migrator struct{ files fs.FS }

// schema is where that of a database stands.
type schema struct {
	version int // 0: there is nothing
	needs   int // the version that a program must know at least
}

// version is that which the program knows.
func (m migrator) version() (int, error) {
	files, err := m.list("up")
	return len(files), err
}

// up brings the schema up to date.
func (m migrator) up(ctx context.Context, pool *pgxpool.Pool) error {
	files, err := m.list("up")
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		now, err := lockSchema(ctx, tx)
		if err != nil {
			return err
		}
		if now.version >= len(files) {
			return now.serves(len(files))
		}
		for n := now.version; n < len(files); n++ {
			if now, err = m.run(ctx, tx, files[n], n+1); err != nil {
				return err
			}
		}
		return now.servesNodes(ctx, tx)
	})
}

// down takes the schema back to a version.
func (m migrator) down(ctx context.Context, pool *pgxpool.Pool, to int) error {
	files, err := m.list("down")
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		now, err := lockSchema(ctx, tx)
		if err != nil {
			return err
		}
		switch {
		case now.version > len(files):
			return fmt.Errorf("the schema has version %d; this program can take back version %d at most", now.version, len(files))
		case to < 0 || to > now.version:
			return fmt.Errorf("the schema has version %d and cannot be taken back to %d: 1 to %[1]d is accepted", now.version, to)
		}
		if err := checkNewerNodes(ctx, tx, now.version, to); err != nil {
			return err
		}
		for n := now.version; n > to; n-- {
			if _, err := m.run(ctx, tx, files[n-1], n-1); err != nil {
				return err
			}
		}
		return nil
	})
}

// list lists the files of one direction in the order of their numbers.
func (m migrator) list(direction string) ([]string, error) {
	files, err := fs.Glob(m.files, "migrations/*."+direction+".sql")
	slices.Sort(files)
	return files, err
}

// needed is the first line of a migration.
var needed = regexp.MustCompile(`^-- Programs must know version (\d+)\.\n`)

// at returns a schema of a version. What programs must know never becomes less.
func (m migrator) at(version int) (schema, error) {
	at := schema{version: version, needs: 1}
	files, err := m.list("up")
	if err != nil {
		return at, err
	}
	for _, file := range files[:version] {
		statements, err := fs.ReadFile(m.files, file)
		if err != nil {
			return at, err
		}
		found := needed.FindSubmatch(statements)
		if found == nil {
			return at, fmt.Errorf("%s does not begin with which version programs must know", path.Base(file))
		}
		needs, err := strconv.Atoi(string(found[1]))
		if err != nil {
			return at, err
		}
		at.needs = max(at.needs, needs)
	}
	return at, nil
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
		CREATE TABLE IF NOT EXISTS posthaste.schema (version integer NOT NULL);
		DO $$ BEGIN
			IF NOT EXISTS (SELECT FROM pg_attribute
				WHERE attrelid = 'posthaste.schema'::regclass AND attname = 'needs' AND NOT attisdropped)
			THEN
				ALTER TABLE posthaste.schema ADD COLUMN needs integer NOT NULL DEFAULT 1;
			END IF;
		END $$`)
	if err != nil {
		return schema{}, err
	}
	return readSchema(ctx, tx)
}

// readSchema returns where the schema of a database stands that has its table, which did
// not always say what it needs.
func readSchema(ctx context.Context, q querier) (schema, error) {
	return row(ctx, q, func(r pgx.CollectableRow) (at schema, err error) {
		err = r.Scan(&at.version, &at.needs)
		return at, err
	}, `SELECT coalesce(max(version), 0), coalesce(max((to_jsonb(s) ->> 'needs')::integer), 1) FROM posthaste.schema s`)
}

// run runs a file, after which the schema has a version.
func (m migrator) run(ctx context.Context, tx pgx.Tx, file string, version int) (schema, error) {
	then, err := m.at(version)
	if err != nil {
		return then, err
	}
	statements, err := fs.ReadFile(m.files, file)
	if err != nil {
		return then, err
	}
	if _, err := tx.Exec(ctx, string(statements)); err != nil {
		return then, fmt.Errorf("%s: %w", path.Base(file), err)
	}
	if _, err := tx.Exec(ctx, `DELETE FROM posthaste.schema`); err != nil {
		return then, err
	}
	_, err = tx.Exec(ctx, `INSERT INTO posthaste.schema (version, needs) VALUES ($1, $2)`, then.version, then.needs)
	return then, err
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
	known, _, err := knownByNodes(ctx, tx)
	if err != nil || known == 0 || known >= s.needs {
		return err
	}
	return fmt.Errorf("a node is running that knows version %d of the schema, and version %d serves those that know %d: stop it, or upgrade to the versions in between first",
		known, s.version, s.needs)
}

// checkNewerNodes returns an error if nodes live that know what is to be taken back.
func checkNewerNodes(ctx context.Context, tx pgx.Tx, version, to int) error {
	if version == 0 {
		return nil
	}
	_, known, err := knownByNodes(ctx, tx)
	if err != nil || known <= to {
		return err
	}
	return fmt.Errorf("a node is running that knows version %d of the schema: stop it before that is taken back to %d, and wait 10 seconds if it was killed", known, to)
}

// knownByNodes returns which versions the nodes know that live: the least and the highest,
// 0 if there is no node. They did not always say so.
func knownByNodes(ctx context.Context, tx pgx.Tx) (least, highest int, err error) {
	err = tx.QueryRow(ctx, `
		SELECT coalesce(min(known), 0), coalesce(max(known), 0) FROM (
			SELECT coalesce((to_jsonb(n) ->> 'known')::integer, 1) AS known
			FROM posthaste.nodes n WHERE expires_at > clock_timestamp()) AS living`).Scan(&least, &highest)
	return least, highest, err
}
