package pgtest

import (
	"context"
	neturl "net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Databases made in somebody else's PostgreSQL are dropped at the end, and those that a killed test
// left, a day later.
func TestAGivenServer(t *testing.T) {
	url := Run(t).URL("postgres")
	t.Setenv(urlVariable, url)
	const left = givenPrefix + "1700000000_abcdef_test1"
	execute(t, url, "CREATE DATABASE "+left)
	c, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	made := c.Database(t)
	execute(t, made+"&synchronous_commit=off", "CREATE TABLE anything ()")
	if names := databases(t, url); slices.Contains(names, left) || len(names) != 2 {
		t.Errorf("databases are %q, want one that was made beside postgres", names)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	if names := databases(t, url); len(names) != 1 {
		t.Errorf("databases are %q in the end", names)
	}
}

func TestAGivenServerWithABadURL(t *testing.T) {
	t.Setenv(urlVariable, "localhost:5432")
	if _, err := Start(); err == nil || !strings.Contains(err.Error(), "postgres://USER:PASSWORD@HOST:PORT/DATABASE") {
		t.Errorf("Start = %v", err)
	}
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	u, err := neturl.Parse(url)
	if err == nil {
		err = (&given{url: u}).execute(sql)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func databases(t *testing.T, url string) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	found, err := conn.Query(t.Context(), `SELECT datname FROM pg_database WHERE NOT datistemplate`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}
