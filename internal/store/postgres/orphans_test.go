package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste"
	"posthaste/internal/store"
)

// A failover loses the last commits while the node lives on: what it had settled in them is
// claimed again by itself, and nobody works on that. It is due again without a restart, what
// waits behind it in a queue goes on, and what the node does work on stays its own.
func TestLeasesThatAFailoverBringsBack(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	inQueue := func() *posthaste.Message {
		m := newMessage(start)
		m.Queue = "q"
		if err := acceptOne(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	first, behind := inQueue(), inQueue()
	delivered, inFlight := accept(t, s, start), accept(t, s, start)
	claims := claimAll(t, s, first, delivered, inFlight)

	lag := keepTables(t, url)
	settle(t, s, store.Delivered(claims[first.ID]))
	settle(t, s, store.Failed(claims[delivered.ID], posthaste.Outcome{Error: "broken"}))
	claimOne(t, s, behind)
	lag.restore(t)

	drain(s.Wake())
	for again := map[posthaste.MessageID]store.Claim{}; len(again) < 2; {
		wantSignal(t, "Wake", s.Wake())
		more, _, err := s.Claim(t.Context(), start, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, claim := range more {
			again[claim.Message.ID] = claim
			if id := claim.Message.ID; id != first.ID && id != delivered.ID {
				t.Fatalf("%s is claimed again, want %s and %s", id, first.ID, delivered.ID)
			}
			settle(t, s, store.Delivered(claim))
		}
	}
	settle(t, s, store.Delivered(claims[inFlight.ID]))
	settle(t, s, store.Delivered(claimOne(t, s, behind)))
	wantWhole(t, url)
}

// Leases are compared again and again while messages are claimed, settled and released as
// fast as that goes: none is given back that somebody works on.
func TestNoLeaseThatIsHeldIsGivenBack(t *testing.T) {
	const workers, rounds, each = 4, 8, 10
	url := emptyDatabase(t)
	s := open(t, url)
	var comparing, working sync.WaitGroup
	done := make(chan struct{})
	comparing.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				s.CompareLeases()
			}
		}
	})
	for n := range workers {
		user := fmt.Sprint("user ", n)
		working.Go(func() {
			for range rounds {
				for range each {
					m := newMessage(start)
					m.User = user
					if err := acceptOne(t.Context(), s, m); err != nil {
						t.Error(err)
						return
					}
				}
				claims, _, err := s.Claim(t.Context(), start, each)
				if err != nil {
					t.Error(err)
					return
				}
				for i, claim := range claims {
					if i == 0 {
						err = s.Release(t.Context(), start, []store.Claim{claim})
					} else {
						_, err = s.Settle(t.Context(), start, store.Delivered(claim))
					}
					if err != nil {
						t.Errorf("a claim that is held: %v", err)
					}
				}
			}
		})
	}
	working.Wait()
	close(done)
	comparing.Wait()
}

// A day's partitions were made in the commits that a failover loses. The node makes them
// again: what it writes meanwhile is refused as for a database that is away.
func TestADayThatAFailoverLoses(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	tomorrow := start.Add(24 * time.Hour)
	accept(t, s, tomorrow)
	for _, part := range []string{"events", "postings", "responses"} {
		execute(t, url, `DROP TABLE posthaste.`+part+`_`+tomorrow.Format("20060102"))
	}
	if err := acceptOne(t.Context(), s, newMessage(tomorrow)); err != nil && !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Accept = %v, want nil or ErrUnavailable", err)
	}
	accept(t, s, tomorrow)
}

// claimAll claims messages, in any order.
func claimAll(t *testing.T, s store.Store, messages ...*posthaste.Message) map[posthaste.MessageID]store.Claim {
	t.Helper()
	all, _, err := s.Claim(t.Context(), start, 10)
	if err != nil || len(all) != len(messages) {
		t.Fatalf("Claim = %d claims, %v, want %d", len(all), err, len(messages))
	}
	of := map[posthaste.MessageID]store.Claim{}
	for _, claim := range all {
		of[claim.Message.ID] = claim
	}
	for _, m := range messages {
		if of[m.ID].Message == nil {
			t.Fatalf("%s is not claimed", m.ID)
		}
	}
	return of
}

// standby is a copy of all tables but that of nodes, as a standby has them that lags.
type standby struct{ pool *pgxpool.Pool }

func keepTables(t *testing.T, url string) standby {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	b := standby{pool}
	t.Cleanup(pool.Close)
	t.Cleanup(func() {
		if _, err := pool.Exec(context.Background(), `DROP SCHEMA standby CASCADE`); err != nil {
			t.Error(err)
		}
	})
	b.each(t, `CREATE TABLE standby.%1$I AS TABLE posthaste.%1$I`, `CREATE SCHEMA standby`)
	return b
}

// restore makes the copy the primary.
func (b standby) restore(t *testing.T) {
	t.Helper()
	b.each(t, `DELETE FROM posthaste.%1$I; INSERT INTO posthaste.%1$I SELECT * FROM standby.%1$I`, ``)
}

// each runs a statement for each table, all in one transaction.
func (b standby) each(t *testing.T, statement, before string) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), before+fmt.Sprintf(`;
		DO $$ DECLARE t text; BEGIN
			FOR t IN SELECT relname FROM pg_class
				WHERE relnamespace = to_regnamespace('posthaste') AND relkind IN ('r', 'p') AND NOT relispartition
					AND relname NOT IN ('nodes', 'schema')
			LOOP
				EXECUTE format('%s', t);
			END LOOP;
		END $$`, statement))
	if err != nil {
		t.Fatal(err)
	}
}

// The clock of the database was set back by a year after a node had said for the last time
// that it lives: it counts as alive for as long as a lease lasts, not for a year.
func TestANodeThatDiedInTheFutureOfTheDatabase(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	execute(t, url, `INSERT INTO posthaste.nodes (node, known, lease, expires_at) VALUES (12345, 1, '10 s', clock_timestamp() + '1 year'::interval)`)
	s.CompareLeases()
	if !queryOne[bool](t, url, `
		SELECT expires_at <= clock_timestamp() + '10 s'::interval FROM posthaste.nodes WHERE node = 12345`) {
		t.Error("the node does not lapse within a lease")
	}
}

// queryOne returns the one value of a question.
func queryOne[T any](t *testing.T, url, sql string) (value T) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pool.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}
