package postgres_test

import (
	"cmp"
	"context"
	"hash/crc32"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
	"posthaste/internal/store/postgres/pgtest"
	"posthaste/internal/store/storetest"
)

var cluster *pgtest.Cluster

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, &cluster)) }

func TestConformance(t *testing.T) {
	storetest.RunBackend(t, func(t *testing.T) store.Store {
		databases, partitions := someNumbers(t)
		options := postgres.Options{Memory: storetest.Memory, Partitions: partitions}.WithPatience(claimPatience)
		if databases > 1 {
			l, s := several(t, databases, options)
			return patient{l, s}
		}
		url := emptyDatabase(t)
		t.Cleanup(func() { wantWhole(t, url) })
		s := openWith(t, url, options)
		return patient{s.Ledger, s.Store}
	})
}

// ofEach are promises that a partition keeps, and a user with several does not: how many series are counted
// in an hour, and that events ascend by the moment of their commit also within a millisecond, and when the
// clock is set back.
var ofEach = []string{"too_many_series", "positions_increase_while"}

// inOne are promises that several databases do not keep to the letter: when a flow-control key in another database
// changes, lanes are woken a moment later; lanes take turns within a database, and databases among themselves.
var inOne = []string{"several_keys_at_once", "higher_limit_takes_effect", "new_window_takes_effect", "served_in_turn_from_claim"}

// someNumbers is how many databases there are in a test, and how many partitions users have. Its name decides that, or
// the environment.
func someNumbers(t *testing.T) (databases int, partitions store.Partitions) {
	t.Helper()
	isOneOf := func(promises []string) bool {
		return slices.ContainsFunc(promises, func(promise string) bool { return strings.Contains(t.Name(), promise) })
	}
	number := func(variable string, otherwise int) int {
		n, err := strconv.Atoi(cmp.Or(os.Getenv(variable), strconv.Itoa(otherwise)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	choice := crc32.ChecksumIEEE([]byte(t.Name())) % 8
	databases = number("STORETEST_DATABASES", []int{1, 1, 1, 1, 1, 1, 1, 2}[choice])
	partitions = store.Partitions(number("STORETEST_PARTITIONS", []int{1, 4}[choice%2]))
	switch {
	case isOneOf(ofEach):
		return 1, 1
	case isOneOf(inOne):
		databases = 1
	}
	return databases, partitions
}

func TestSeam(t *testing.T) {
	storetest.RunSeam(t, func(t *testing.T) store.Backend {
		return openWith(t, emptyDatabase(t), postgres.Options{Memory: storetest.Memory}.WithPatience(claimPatience)).Store
	})
}

func TestCrowdedMoment(t *testing.T) {
	storetest.RunCrowdedMoment(t, func(t *testing.T) store.Store {
		url := emptyDatabase(t)
		t.Cleanup(func() { wantWhole(t, url) })
		return openWith(t, url, postgres.Options{Memory: storetest.Memory, ClaimAccepted: true}.WithPatience(claimPatience))
	})
}

// claimPatience is how long a claim waits for turns: for as long as a commit may take on a
// machine that has much to do, for most tests want all that is due at once.
const claimPatience = 8 * time.Second

// open joins the nodes of a database.
func open(t testing.TB, url string) *ruled {
	t.Helper()
	return openWith(t, url, postgres.Options{}.WithPatience(claimPatience))
}

func openWith(t testing.TB, url string, options postgres.Options) *ruled {
	t.Helper()
	options.Logger, options.Partitions = slog.New(slog.DiscardHandler), cmp.Or(options.Partitions, 1)
	s, err := postgres.Open(t.Context(), url, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return newRuled(s)
}

// idle are the databases that no test uses now: to empty one takes far less time than to
// make one.
var idle struct {
	sync.Mutex
	urls []string
}

// emptyDatabase returns the URL of a database that holds nothing, for this test alone.
func emptyDatabase(t *testing.T) string {
	t.Helper()
	url, err := takeDatabase()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		idle.Lock()
		defer idle.Unlock()
		idle.urls = append(idle.urls, url)
	})
	if err := deleteAll(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return url
}

func takeDatabase() (string, error) {
	idle.Lock()
	defer idle.Unlock()
	last := len(idle.urls) - 1
	if last < 0 {
		return cluster.Create()
	}
	url := idle.urls[last]
	idle.urls = idle.urls[:last]
	return url, nil
}

// deleteAll empties all tables but the one that tells the version of the schema, drops
// the days of the log but those that most tests use.
func deleteAll(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, `
		DO $$ DECLARE t record; BEGIN
			FOR t IN SELECT relname, relispartition FROM pg_class
				WHERE relnamespace = to_regnamespace('posthaste') AND relkind IN ('r', 'p') AND relname <> 'schema'
			LOOP
				IF NOT t.relispartition THEN
					EXECUTE 'DELETE FROM posthaste.' || quote_ident(t.relname);
				ELSIF t.relname !~ '2026030[123]$' THEN
					EXECUTE 'DROP TABLE posthaste.' || quote_ident(t.relname);
				END IF;
			END LOOP;
		END $$`)
	return err
}
