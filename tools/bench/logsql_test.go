package main

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/api/wire"
	"posthaste/internal/eventlog"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/store/postgres/pgtest"
)

// TestSQLLogHasTheSamePages compares what PostgreSQL is asked for with what Posthaste
// answers.
func TestSQLLogHasTheSamePages(t *testing.T) {
	cluster, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	side := &logStore{condition: condition{dir: t.TempDir()}}
	side.history = &history{user: benchingUser, size: 16, until: time.Now(), span: time.Minute, total: 1000, runs: runsEach}
	if err := os.Mkdir(side.data(), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := side.history.write(t.Context(), side.data()); err != nil {
		t.Fatal(err)
	}
	l := &lab{options: Options{DatabaseURL: cluster.Database(t)}}
	table, err := openSQLLog(t.Context(), l, side)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		table.close()
		wantNoSchema(t, l.options.DatabaseURL)
	}()
	s, err := ledger.Over(lsm.Open(side.data(), lsm.Options{Logger: slog.New(slog.DiscardHandler)}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log := eventlog.New(eventlog.Options{Store: s})
	found := 0
	for _, page := range logPages(shortLog) {
		if page.path != messageLog {
			continue
		}
		t.Run(page.name, func(t *testing.T) {
			params, err := page.query(side.history)
			if err != nil {
				t.Fatal(err)
			}
			query, err := wire.Events(params, wire.Count{Default: 1000, Most: 1000})
			if err != nil {
				t.Fatal(err)
			}
			var want []int64
			_, _, err = log.Query(t.Context(), benchingUser, query, func(entry *store.Entry) error {
				want = append(want, int64(entry.Position))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := table.positions(t, page); !slices.Equal(got, want) {
				t.Errorf("PostgreSQL has %d entries, not the same %d", len(got), len(want))
			}
			found += len(want)
		})
	}
	if found == 0 {
		t.Error("no page has an entry")
	}
}

// positions returns those of the rows of a page.
func (s *sqlLog) positions(t *testing.T, page logPage) (positions []int64) {
	t.Helper()
	query, values, err := s.query(page)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.db.Query(t.Context(), query, values...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		row, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		positions = append(positions, row[0].(int64))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return positions
}

// wantNoSchema requires that nothing was left behind in a database.
func wantNoSchema(t *testing.T, database string) {
	t.Helper()
	db, err := pgx.Connect(context.Background(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	var left int
	err = db.QueryRow(context.Background(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'posthaste%'").Scan(&left)
	if err != nil || left > 0 {
		t.Errorf("%d schemas are left, %v", left, err)
	}
}
