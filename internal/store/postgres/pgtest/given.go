package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// urlVariable holds the URL of any database of a PostgreSQL that tests are to run on.
const urlVariable = "POSTHASTE_TEST_DATABASE_URL"

// given is a PostgreSQL that somebody else runs. Names of databases made in it begin with
// prefix and the time, so that what a killed test left is dropped a day later.
type given struct {
	url    *url.URL
	prefix string

	mu   sync.Mutex
	made []string // databases
}

const (
	givenPrefix = "posthaste_test_"
	leftAfter   = 24 * time.Hour
)

func useGiven(text string) (*Cluster, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, fmt.Errorf("%s cannot be read: postgres://USER:PASSWORD@HOST:PORT/DATABASE is accepted", urlVariable)
	}
	g := &given{url: u, prefix: fmt.Sprintf("%s%d_%06x_", givenPrefix, time.Now().Unix(), rand.IntN(1<<24))}
	return &Cluster{given: g}, g.dropLeft()
}

// database returns the URL of a database.
func (g *given) database(name string) string {
	u := *g.url
	u.Path = "/" + name
	u.RawQuery = cmp.Or(u.RawQuery, "application_name=posthaste")
	return u.String()
}

// create makes an empty database.
func (g *given) create(name string) (string, error) {
	name = g.prefix + name
	err := g.execute("CREATE DATABASE " + name)
	if err == nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.made = append(g.made, name)
	}
	return g.database(name), err
}

// drop drops what was made.
func (g *given) drop() (err error) {
	for _, name := range g.made {
		err = errors.Join(err, g.dropDatabase(name))
	}
	return err
}

func (g *given) dropDatabase(name string) error {
	return g.execute("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)")
}

// dropLeft drops what tests left that were killed long ago.
func (g *given) dropLeft() error {
	conn, err := pgx.Connect(context.Background(), g.url.String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.Background()) }()
	found, err := conn.Query(context.Background(), `SELECT datname FROM pg_database WHERE starts_with(datname, $1)`, givenPrefix)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(found, pgx.RowTo[string])
	for _, name := range names {
		var made int64
		_, parsed := fmt.Sscanf(strings.TrimPrefix(name, givenPrefix), "%d_", &made)
		if parsed == nil && time.Since(time.Unix(made, 0)) > leftAfter {
			err = errors.Join(err, g.dropDatabase(name))
		}
	}
	return err
}

func (g *given) execute(sql string) error {
	conn, err := pgx.Connect(context.Background(), g.url.String())
	if err != nil {
		return err
	}
	_, err = conn.Exec(context.Background(), sql)
	return errors.Join(err, conn.Close(context.Background()))
}

// NeedOwn skips a test that stops or reconfigures the server, unless it is the tests' own.
func (c *Cluster) NeedOwn(t testing.TB) {
	t.Helper()
	if c.Given() {
		t.Skipf("stops or reconfigures the server: not the one of %s", urlVariable)
	}
}

// Given reports whether somebody else runs the server.
func (c *Cluster) Given() bool { return c.given != nil }
