package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Pair is a primary and a standby that follows it by streaming replication.
type Pair struct {
	Primary, Standby *Cluster
}

// RunPair starts a pair for one test, at whose end it is stopped. With a synchronous standby, a
// commit waits until the standby has it, as synchronous_commit = on does.
func RunPair(t testing.TB, synchronous bool) *Pair {
	t.Helper()
	p, err := startPair(synchronous)
	t.Cleanup(func() {
		for _, c := range []*Cluster{p.Standby, p.Primary} {
			if c != nil {
				if err := c.Stop(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func startPair(synchronous bool) (p *Pair, err error) {
	p = &Pair{}
	if p.Primary, err = startWith((*Cluster).initialize); err != nil {
		return p, err
	}
	p.Primary.settings = "-c wal_keep_size=256MB"
	if synchronous {
		p.Primary.settings += " -c synchronous_standby_names=*"
	}
	// the copy is made before the first start, so that it needs no base backup
	if p.Standby, err = startWith(p.copyPrimary); err != nil {
		return p, err
	}
	if err := errors.Join(p.Primary.Launch(), p.Standby.Launch()); err != nil {
		return p, err
	}
	return p, p.awaitStandby()
}

// copyPrimary makes what a cluster has a copy of the primary's, which follows it.
func (p *Pair) copyPrimary(standby *Cluster) error {
	if err := standby.execute("cp", "-R", p.Primary.data(), standby.data()); err != nil {
		return err
	}
	follow := fmt.Sprintf("primary_conninfo = 'host=127.0.0.1 port=%d user=postgres'\n", p.Primary.port)
	settings, err := os.OpenFile(filepath.Join(standby.data(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = settings.WriteString(follow)
	return errors.Join(err, settings.Close(), standby.execute("touch", filepath.Join(standby.data(), "standby.signal")))
}

// awaitStandby waits until the primary streams to the standby: before, commits of a synchronous pair
// wait, too.
func (p *Pair) awaitStandby() error {
	_, err := p.sender()
	return err
}

// sender returns the process that streams to the standby, as soon as there is one.
func (p *Pair) sender() (pid int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.Primary.URL("postgres"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for pid == 0 && err == nil {
		err = conn.QueryRow(ctx, `SELECT coalesce(max(pid), 0) FROM pg_stat_replication WHERE state = 'streaming'`).Scan(&pid)
	}
	return pid, err
}

// AwaitReplay waits until the standby shows what the primary has: a synchronous commit waits only until the
// standby has stored it.
func (p *Pair) AwaitReplay() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	primary, err := pgx.Connect(ctx, p.Primary.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = primary.Close(context.Background()) }()
	standby, err := pgx.Connect(ctx, p.Standby.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = standby.Close(context.Background()) }()
	var end string
	err = primary.QueryRow(ctx, `SELECT pg_current_wal_lsn()::text`).Scan(&end)
	for replayed := false; err == nil && !replayed; {
		err = standby.QueryRow(ctx, `SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn`, end).Scan(&replayed)
	}
	return err
}

// Lag keeps the standby from what is committed from now on, until the primary is halted, which then
// takes five seconds more.
func (p *Pair) Lag() error {
	pid, err := p.sender()
	return errors.Join(err, syscall.Kill(pid, syscall.SIGSTOP))
}

// Promote makes the standby the primary.
func (p *Pair) Promote() error {
	return p.Standby.run("pg_ctl", "-D", p.Standby.data(), "-w", "promote")
}

// URL returns that of a database of whichever is the primary.
func (p *Pair) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/%s?sslmode=disable&target_session_attrs=read-write",
		p.Primary.port, p.Standby.port, database)
}
