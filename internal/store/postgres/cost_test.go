package postgres_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
)

// costs are what a message takes of the database, from its acceptance to its delivery, with its share
// of what is written later.
type costs struct {
	statements float64
	wal        float64 // bytes of the write-ahead log
	versions   float64 // row versions: rows inserted, changed and deleted
}

// What a message costs is counted, alone and under load, for nobody notices one more statement or row
// in a test.
func TestCost(t *testing.T) {
	const messages = 100
	for name, test := range map[string]struct {
		live func(testing.TB, *ruled)
		most costs
	}{
		"alone": {func(t testing.TB, s *ruled) {
			for range messages {
				live(t, s)
			}
		}, costs{statements: 17, wal: 4000, versions: 13}},
		"under load": {func(t testing.TB, s *ruled) { liveTogether(t, s, messages) }, costs{statements: 4, wal: 2200, versions: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			const tries = 3 // after a checkpoint, which others cause, whole pages are logged
			for try := 1; ; try++ {
				cost := costOf(t, messages, test.live)
				t.Logf("%.1f statements, %.0f bytes of WAL, %.1f row versions a message", cost.statements, cost.wal, cost.versions)
				if cost.statements <= test.most.statements && cost.wal <= test.most.wal && cost.versions <= test.most.versions {
					return
				}
				if try == tries {
					t.Fatalf("a message costs %+v, want at most %+v", cost, test.most)
				}
			}
		})
	}
}

// While somebody holds a snapshot of the database, what rows were before stays in the indexes. Messages
// do not read it.
func TestASnapshotAddsNothingToWhatIsRead(t *testing.T) {
	const messages = 20
	url := cluster.Database(t)
	round := func() int64 {
		s := openWith(t, url, postgres.Options{})
		for range messages {
			live(t, s)
		}
		_ = s.Close() // with its connections the database has counted what they read
		return entriesRead(t, url)
	}
	round()
	other := newDamager(t, url).conn
	if _, err := other.Exec(t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT`); err != nil {
		t.Fatal(err)
	}
	before := round()
	first := round() - before
	before = round()
	if last := round() - before; last > first+first/4 {
		t.Errorf("%d messages read %d entries of the indexes, and later %d", messages, first, last)
	}
}

// entriesRead returns how many entries of the indexes were read by which a message finds its rows.
func entriesRead(t testing.TB, url string) (entries int64) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	waitForTheEnd(t, conn)
	err = conn.QueryRow(t.Context(), `
		SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE indexrelname IN ('users_pkey', 'lanes_pkey', 'live_waiting')`).Scan(&entries)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// waitForTheEnd waits for the other connections to a database, which end a moment after their store has
// closed: what they read and wrote is counted then.
func waitForTheEnd(t testing.TB, conn *pgx.Conn) {
	t.Helper()
	for others := 1; others > 0; {
		err := conn.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle in transaction'`).Scan(&others)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// costOf measures the life of some messages in a database that is used already.
func costOf(t testing.TB, messages int, live func(testing.TB, *ruled)) costs {
	t.Helper()
	url := cluster.Database(t)
	counted := &counter{}
	open := func() *ruled { return openWith(t, url, claimingAccepted.WithTracer(counted)) }
	s := open()
	live(t, s)
	_ = s.Close()
	wal, versions := written(t, url)
	s = open()
	counted.reset()
	live(t, s)
	statements, _ := counted.totals()
	_ = s.Close()
	walAfter, versionsAfter := written(t, url)
	n := float64(messages)
	return costs{float64(len(statements)) / n, float64(walAfter-wal) / n, float64(versionsAfter-versions) / n}
}

// written returns how much the database has written: bytes of its log, and row versions.
func written(t testing.TB, url string) (wal, versions int64) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	waitForTheEnd(t, conn)
	err = conn.QueryRow(t.Context(), `
		SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint FROM pg_stat_user_tables`).Scan(&wal, &versions)
	if err != nil {
		t.Fatal(err)
	}
	return wal, versions
}

// liveTogether takes messages through their lives at the same time.
func liveTogether(t testing.TB, s *ruled, messages int) {
	t.Helper()
	var working sync.WaitGroup
	each := func(do func(i int) error) {
		for i := range messages {
			working.Go(func() {
				if err := do(i); err != nil {
					t.Error(err)
				}
			})
		}
		working.Wait()
	}
	each(func(int) error { return acceptOne(t.Context(), s, plainMessage(s)) })
	var claims []store.Claim
	for len(claims) < messages && !t.Failed() {
		some, _, err := s.Claim(t.Context(), s.Now(), 1000*messages)
		if err != nil || len(some) == 0 {
			t.Fatalf("Claim = %d claims, %v, want %d", len(some), err, messages-len(claims))
		}
		claims = append(claims, some...)
	}
	each(func(i int) error {
		_, err := s.Settle(t.Context(), s.Now(), store.Delivered(claims[i]))
		return err
	})
}

// plainMessage is one of many for a destination.
func plainMessage(s *ruled) *posthaste.Message {
	m := newMessage(s.Now())
	m.URL, m.Body = "http://destination.example/", []byte("body")
	return m
}
