package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
)

// quiet are the options of a node that logs nothing.
var quiet = postgres.Options{Logger: slog.New(slog.DiscardHandler)}

// Several nodes start at once on an empty database: one makes the schema, and all serve.
func TestSeveralStartAtOnce(t *testing.T) {
	url := cluster.Database(t)
	var starting sync.WaitGroup
	for range 4 {
		starting.Go(func() {
			s, err := postgres.Open(t.Context(), url, quiet)
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			if err := errors.Join(acceptOne(t.Context(), newRuled(s), newMessage(start)), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	if got := versionOf(t, connect(t, url)); got != 1 {
		t.Errorf("the schema has version %d, want 1", got)
	}
}

// Somebody reads the whole database, as a dump does, while nodes start: one that finds the
// schema up to date does not wait, and one that has to change it gives up for now, so that
// nobody waits behind it.
func TestAStartDuringADump(t *testing.T) {
	url := cluster.Database(t)
	pool := connect(t, url)
	open(t, url)
	reader, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback(context.Background()) }()
	if _, err := reader.Exec(t.Context(), `LOCK TABLE posthaste.schema, posthaste.live IN ACCESS SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	same, err := postgres.Open(ctx, url, quiet)
	if err != nil {
		t.Fatalf("the schema is up to date: Open = %v", err)
	}
	if err := same.Close(); err != nil {
		t.Error(err)
	}
	newer := quiet.WithMigration(`ALTER TABLE posthaste.live ADD COLUMN note text`, 1)
	if _, err := postgres.Open(ctx, url, newer); !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
		t.Fatalf("the schema is to be changed: Open = %v, want ErrUnavailable", err)
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	upgraded, err := postgres.Open(ctx, url, newer)
	if err != nil {
		t.Fatalf("nobody reads any more: Open = %v", err)
	}
	if err := upgraded.Close(); err != nil {
		t.Error(err)
	}
}

// A newer program joins, which adds to the busiest table, while an older one publishes and
// delivers. The older one never notices.
func TestUpgrade(t *testing.T) {
	url := cluster.Database(t)
	pool, older := connect(t, url), open(t, url)
	known := versionOf(t, pool)
	newer := quiet.WithMigration(`
		ALTER TABLE posthaste.live ADD COLUMN note text NOT NULL DEFAULT 'none';
		CREATE INDEX live_note ON posthaste.live (user_id, note);`, known)
	upgraded, done := make(chan struct{}), make(chan struct{})
	var delivering sync.WaitGroup
	delivering.Go(func() {
		for rounds := 0; ; rounds++ {
			if err := deliverOne(t, older); err != nil {
				t.Errorf("the older node, round %d: %v", rounds, err)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	go func() {
		defer close(upgraded)
		s, err := postgres.Open(t.Context(), url, newer)
		if err != nil {
			t.Errorf("the newer node: %v", err)
			return
		}
		if got := versionOf(t, pool); got != known+1 {
			t.Errorf("the schema has version %d, want %d", got, known+1)
		}
		for range 20 {
			if err := acceptOne(t.Context(), newRuled(s), newMessage(start)); err != nil {
				t.Errorf("the newer node: %v", err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	<-upgraded
	close(done)
	delivering.Wait()
	for range 1000 {
		claims, _, err := older.Claim(t.Context(), start, 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(claims) == 0 {
			break
		}
		for _, c := range claims {
			settle(t, older, store.Delivered(c))
		}
	}
	stats, err := older.Stats(t.Context(), start)
	if err != nil || stats.Lanes > 0 {
		t.Errorf("%d lanes hold messages in the end, %v; want none", stats.Lanes, err)
	}
}

// deliverOne accepts a message at a node, and delivers what that claims.
func deliverOne(t *testing.T, s *ruled) error {
	if err := acceptOne(t.Context(), s, newMessage(start)); err != nil {
		return err
	}
	claims, _, err := s.Claim(t.Context(), start, 10)
	for _, c := range claims {
		_, settleErr := s.Settle(t.Context(), start, store.Delivered(c))
		err = errors.Join(err, settleErr)
	}
	return err
}

// During an upgrade a program runs beside a newer one, which has added to the schema.
func TestANewerSchemaIsLeftAlone(t *testing.T) {
	const newer = 1000
	url := cluster.Database(t)
	older := open(t, url)
	execute(t, url, `UPDATE posthaste.schema SET version = 1000; ALTER TABLE posthaste.ended ADD COLUMN note text`)
	restarted := open(t, url)
	m := accept(t, older, start)
	settle(t, restarted, store.Delivered(claimOne(t, restarted, m)))
	if got := versionOf(t, connect(t, url)); got != newer {
		t.Errorf("the schema has version %d, want %d", got, newer)
	}
}

// No version of the program that takes part in an upgrade may be skipped.
func TestASchemaThatDoesNotServe(t *testing.T) {
	url := cluster.Database(t)
	older := open(t, url)
	known := versionOf(t, connect(t, url))
	demanding := quiet.WithMigration(`CREATE TABLE posthaste.more ()`, known+1)
	joining := func() error {
		s, err := postgres.Open(t.Context(), url, demanding)
		if err == nil {
			err = s.Close()
		}
		return err
	}
	want := fmt.Sprintf("a node is running that knows version %d of the schema, and version %d serves those that know %[2]d", known, known+1)
	if err := joining(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a program that would stop a node = %v, want %q", err, want)
	}
	settle(t, older, store.Delivered(claimOne(t, older, accept(t, older, start))))
	if err := errors.Join(older.Close(), joining()); err != nil {
		t.Fatal(err)
	}
	want = fmt.Sprintf("the schema of the database has version %d and serves programs that know version %[1]d; this one knows version %d", known+1, known)
	if _, err := postgres.Open(t.Context(), url, postgres.Options{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a program that is too old = %v, want %q", err, want)
	}
}

// An operator sees who knows what.
func TestSchemaOfADatabase(t *testing.T) {
	url := cluster.Database(t)
	if _, err := postgres.ReadSchema(t.Context(), url); err == nil || !strings.Contains(err.Error(), "no server has ever used this database") {
		t.Errorf("ReadSchema of an empty database = %v, want that it is refused", err)
	}
	s := open(t, url)
	at, err := postgres.ReadSchema(t.Context(), url)
	if err != nil || at.Version != at.Known || at.Needs != 1 || len(at.Nodes) != 1 || at.Nodes[0].Known != at.Known {
		t.Fatalf("ReadSchema = %+v, %v; want one node and that all know the version", at, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if at, err = postgres.ReadSchema(t.Context(), url); err != nil || len(at.Nodes) != 0 {
		t.Errorf("ReadSchema = %+v, %v; want no node", at, err)
	}
}

// A database that must be there already is not changed by being opened.
func TestExisting(t *testing.T) {
	url := cluster.Database(t)
	pool := connect(t, url)
	existing := quiet
	existing.Existing = true
	if _, err := postgres.Open(t.Context(), url, existing); err == nil || !strings.Contains(err.Error(), "no server has ever used this database") {
		t.Errorf("Open of an empty database = %v, want that it is refused", err)
	}
	var made bool
	if err := pool.QueryRow(t.Context(), `SELECT to_regnamespace('posthaste') IS NOT NULL`).Scan(&made); err != nil || made {
		t.Errorf("the schema is made: %t, %v", made, err)
	}
	if err := open(t, url).Close(); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), url, existing)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	execute(t, url, `UPDATE posthaste.schema SET version = version + 1`)
	if _, err := postgres.Open(t.Context(), url, existing); err == nil || !strings.Contains(err.Error(), "use the program that served it last") {
		t.Errorf("Open of another schema = %v, want that it is refused", err)
	}
}

func versionOf(t *testing.T, pool *pgxpool.Pool) (version int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT version FROM posthaste.schema`).Scan(&version); err != nil {
		t.Error(err)
	}
	return version
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
