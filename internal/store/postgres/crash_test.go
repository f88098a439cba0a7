package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/store"
	"posthaste/internal/store/partition"
	"posthaste/internal/store/postgres"
	"posthaste/internal/store/storetest"
)

func TestCrash(t *testing.T) {
	seeds := int64(2)
	if testing.Short() {
		seeds = 1
	}
	storetest.RunCrash(t, seeds, func(t *testing.T) storetest.Crashable {
		c := &crashable{t: t, url: emptyDatabase(t)}
		t.Cleanup(func() { _ = c.store.Close() })
		return c
	})
}

// crashable is a node that loses its connections in the middle of whatever it does, and
// is taken for dead then.
type crashable struct {
	t     *testing.T
	url   string
	store *postgres.Store

	claimsAccepted bool // see postgres.Options
}

func (c *crashable) Open() (s store.Store, err error) {
	c.store, err = postgres.Open(c.t.Context(), c.url, postgres.Options{Partitions: 4, ClaimAccepted: c.claimsAccepted}.WithPatience(claimPatience))
	if err != nil {
		return nil, err
	}
	return patient{newRuled(c.store).Ledger, c.store}, nil
}

func TestSeamCrash(t *testing.T) {
	storetest.RunSeamCrash(t, func(t *testing.T) storetest.CrashableBackend {
		c := &crashableSeam{crashable{t: t, url: emptyDatabase(t), claimsAccepted: true}}
		t.Cleanup(func() { _ = c.store.Close() })
		return c
	})
}

// crashableSeam is crashable without the rules.
type crashableSeam struct{ crashable }

func (c *crashableSeam) Open() (_ store.Backend, err error) {
	_, err = c.crashable.Open()
	return partition.Over(c.store, err)
}

// Crash has nothing for a seed to decide: what was committed is durable.
func (c *crashable) Crash(int64) {
	if err := cutConnections(c.t.Context(), c.url); err != nil {
		c.t.Error(err)
	}
	_ = c.store.Close() // lets the calls in progress return
	execute(c.t, c.url, `UPDATE posthaste.nodes SET expires_at = '-infinity'`)
}

// cutConnections ends all connections to a database but the one it is done by.
func cutConnections(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, `
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	return err
}
