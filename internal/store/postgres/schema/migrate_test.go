package schema_test

import (
	"os"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste/internal/store/postgres/pgtest"
	"posthaste/internal/store/postgres/schema"
)

var cluster *pgtest.Cluster

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, &cluster)) }

// The database's default is not ours.
func TestSeveralAtOnceWhereTransactionsAreSerializable(t *testing.T) {
	url := cluster.Database(t)
	execute(t, connect(t, url), `DO $$ BEGIN
		EXECUTE 'ALTER DATABASE ' || current_database() || ' SET default_transaction_isolation = serializable';
	END $$`)
	pool := connect(t, url)
	var starting sync.WaitGroup
	for range 4 {
		starting.Go(func() {
			if err := schema.Migrations.Up(t.Context(), pool); err != nil {
				t.Errorf("Up: %v", err)
			}
		})
	}
	starting.Wait()
	if err := schema.Migrations.Check(t.Context(), pool); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// A role that may create nothing in the database finds a schema that is its own up to date.
func TestARoleThatMayCreateNothing(t *testing.T) {
	cluster.NeedOwn(t)
	url := cluster.Database(t)
	owner := connect(t, url)
	name := path.Base(strings.TrimSuffix(url, "?sslmode=disable"))
	execute(t, owner, `CREATE ROLE `+name+` LOGIN; GRANT CREATE ON DATABASE `+name+` TO `+name)
	own := connect(t, strings.Replace(url, "postgres@", name+"@", 1))
	if err := schema.Migrations.Up(t.Context(), own); err != nil {
		t.Fatalf("Up with the right to create: %v", err)
	}
	execute(t, owner, `REVOKE CREATE ON DATABASE `+name+` FROM `+name)
	if err := schema.Migrations.Up(t.Context(), own); err != nil {
		t.Errorf("Up without the right to create: %v", err)
	}
}

// Tables that change with each message are vacuumed early.
func TestTablesThatChangeAreVacuumedEarly(t *testing.T) {
	pool := connect(t, cluster.Database(t))
	if err := schema.Migrations.Up(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	var late []string
	err := pool.QueryRow(t.Context(), `
		SELECT coalesce(array_agg(relname::text), '{}') FROM pg_class
		WHERE oid = ANY(ARRAY['posthaste.users', 'posthaste.live', 'posthaste.lanes', 'posthaste.blocked', 'posthaste.kept',
				'posthaste.records', 'posthaste.terms']::regclass[])
			AND array_to_string(reloptions, ' ') !~ 'autovacuum_vacuum_scale_factor=0.0[12]'`).Scan(&late)
	if err != nil || len(late) > 0 {
		t.Errorf("vacuumed when a fifth is dead: %q, %v", late, err)
	}
}

func connect(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func execute(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}
