package postgres_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
)

// backlogs are what may lie in a database that should cost a message nothing.
var backlogs = map[string]func(b *testing.B, s *ruled){
	"nothing": func(*testing.B, *ruled) {},
	"a million delayed messages for the host": func(b *testing.B, s *ruled) {
		acceptMany(b, s, 1_000_000, func(_ int, m *posthaste.Message) {
			m.URL, m.NotBefore = "http://destination.example/", m.CreatedAt.Add(time.Hour)
		})
	},
	"20000 delayed messages in a queue": func(b *testing.B, s *ruled) {
		acceptMany(b, s, 20_000, func(_ int, m *posthaste.Message) {
			m.Queue, m.NotBefore = "q", m.CreatedAt.Add(time.Hour)
		})
	},
	"100000 flow-control keys": func(b *testing.B, s *ruled) {
		acceptMany(b, s, 100_000, func(i int, m *posthaste.Message) {
			m.FlowControl.Key, m.NotBefore = fmt.Sprint("key", i), m.CreatedAt.Add(time.Hour)
		})
	},
}

// BenchmarkBacklog takes one message after the other through its life, beside what waits, and reports what
// the database's processor has to do.
func BenchmarkBacklog(b *testing.B) {
	for name, accept := range backlogs {
		b.Run(name, func(b *testing.B) {
			url, err := cluster.Create()
			if err != nil {
				b.Fatal(err)
			}
			s := openWith(b, url, claimingAccepted)
			accept(b, s)
			lookAround(b, s)
			if err := s.Counts(b.Context(), ann, s.Now(), s.Now(), func(*store.Count) {}); err != nil { // the index is written then
				b.Fatal(err)
			}
			for range 20 {
				live(b, s)
			}
			before := processorTime(b, url)
			b.ResetTimer()
			var took []time.Duration
			for i := range b.N {
				began := time.Now()
				m := newMessage(s.Now())
				m.URL = "http://destination.example/"
				if name == "20000 delayed messages in a queue" && i%2 == 0 {
					m.Queue = "q"
				}
				if err := acceptOne(b.Context(), s, m); err != nil {
					b.Fatal(err)
				}
				claims, _, err := s.Claim(b.Context(), s.Now(), 4096)
				if err != nil || len(claims) != 1 {
					b.Fatalf("Claim = %d claims, %v, want 1", len(claims), err)
				}
				if _, err := s.Settle(b.Context(), s.Now(), store.Delivered(claims[0])); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64((processorTime(b, url)-before).Microseconds())/1000/float64(b.N), "database-ms/message")
		})
	}
}

// BenchmarkNewKeys accepts batches of 500 messages, each with a new flow-control key, beside 12 000
// keys that messages wait for.
func BenchmarkNewKeys(b *testing.B) {
	s := openBench(b, postgres.Options{}.WithPatience(time.Minute))
	limited := func(key func(i int) string) func(int, *posthaste.Message) {
		return func(i int, m *posthaste.Message) { m.FlowControl.Key, m.FlowControl.Parallelism = key(i), 1 }
	}
	acceptMany(b, s, 24_000, limited(func(i int) string { return fmt.Sprint("key", i%12_000) }))
	for range 3 {
		if _, _, err := s.Claim(b.Context(), s.Now(), 20_000); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for n := range b.N {
		acceptMany(b, s, 500, limited(func(i int) string { return fmt.Sprint("new", n, "/", i) }))
	}
}

// openBench joins an empty database in which nothing is analyzed meanwhile.
func openBench(b *testing.B, options postgres.Options) *ruled {
	b.Helper()
	url, err := cluster.Create()
	if err != nil {
		b.Fatal(err)
	}
	return openWith(b, url, options)
}

// lookAround claims until there is nothing to look at.
func lookAround(b testing.TB, s *ruled) {
	b.Helper()
	for {
		if _, next, err := s.Claim(b.Context(), s.Now(), 4096); err != nil || next.After(s.Now()) || next.IsZero() {
			return
		}
	}
}

// acceptMany accepts messages in batches of 500.
func acceptMany(b testing.TB, s *ruled, count int, change func(i int, m *posthaste.Message)) {
	b.Helper()
	for n := 0; n < count; n += 500 {
		some := make([]*posthaste.Message, min(500, count-n))
		for i := range some {
			some[i] = newMessage(s.Now())
			change(n+i, some[i])
		}
		if _, err := s.Accept(b.Context(), s.Now(), []store.Submission{{Messages: some}}); err != nil {
			b.Fatal(err)
		}
	}
}

// A claim reads what is due, and no more than one of what follows in a lane.
func TestAClaimReadsDueMessagesOnly(t *testing.T) {
	const backlog, fewRows = 1000, 40
	for name, change := range map[string]func(*posthaste.Message){
		"for a host":  func(m *posthaste.Message) { m.URL = "http://destination.example/" },
		"in a queue":  func(m *posthaste.Message) { m.Queue = "q" },
		"under a key": func(m *posthaste.Message) { m.FlowControl.Key = "k" },
	} {
		t.Run(name, func(t *testing.T) {
			read := &readRows{}
			s := openWith(t, emptyDatabase(t), postgres.Options{}.WithPatience(claimPatience).WithTracer(read))
			acceptMany(t, s, backlog, func(_ int, m *posthaste.Message) {
				change(m)
				m.NotBefore = m.CreatedAt.Add(time.Hour)
			})
			m := newMessage(s.Now())
			change(m)
			if err := acceptOne(t.Context(), s, m); err != nil {
				t.Fatal(err)
			}
			read.count = 0
			claims, next, err := s.Claim(t.Context(), s.Now(), backlog)
			if err != nil || len(claims) != 1 || claims[0].Message.ID != m.ID {
				t.Fatalf("Claim = %d claims, %v, want the one that is due", len(claims), err)
			}
			if read.count > fewRows {
				t.Errorf("the claim read or wrote %d rows beside %d delayed messages, want at most %d", read.count, backlog, fewRows)
			}
			if wait := next.Sub(s.Now()); m.Queue == "" && (wait < time.Hour/2 || wait > time.Hour) {
				t.Errorf("the next message is due in %v, want an hour", wait)
			}
		})
	}
}

// Of a host that is at its ceiling a claim reads no more than may start.
func TestAClaimReadsNoMoreThanMayStart(t *testing.T) {
	const backlog, limit, ceiling = 500, 80, 7 // an eighth of three quarters
	read := &readRows{}
	s := openWith(t, emptyDatabase(t), postgres.Options{}.WithPatience(claimPatience).WithTracer(read))
	acceptMany(t, s, backlog, func(_ int, m *posthaste.Message) { m.URL = "http://destination.example/" })
	if claims, _, err := s.Claim(t.Context(), s.Now(), limit); err != nil || len(claims) == 0 || len(claims) > ceiling {
		t.Fatalf("Claim = %d claims, %v, want up to %d", len(claims), err, ceiling)
	}
	acceptMany(t, s, 1, func(_ int, m *posthaste.Message) { m.URL = "http://destination.example/" })
	read.count = 0
	if claims, _, err := s.Claim(t.Context(), s.Now(), limit); err != nil || len(claims) > 1 {
		t.Fatalf("Claim = %d claims, %v, want no more than one", len(claims), err)
	}
	if most := int64(40); read.count > most {
		t.Errorf("the claim read or wrote %d rows, want at most %d", read.count, most)
	}
}

// A claim does not read what has left the front of a lane, and finds what comes back there.
func TestAClaimBeginsAtTheFrontOfALane(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	acceptAt := func(now time.Time) *posthaste.Message {
		m := newMessage(now)
		m.URL = "http://destination.example/"
		if err := acceptOne(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	claimAt := func(now time.Time, want *posthaste.Message) store.Claim {
		claims, _, err := s.Claim(t.Context(), now, 100)
		if err != nil || len(claims) != 1 || claims[0].Message.ID != want.ID {
			t.Fatalf("Claim = %v, %v, want the message of %v", claims, err, want.CreatedAt)
		}
		return claims[0]
	}
	first := acceptAt(start)
	claim := claimAt(start, first)
	later := start.Add(5 * time.Second)
	claimAt(later, acceptAt(later))
	var front int64
	if err := newDamager(t, url).conn.QueryRow(t.Context(), `SELECT front FROM posthaste.lanes`).Scan(&front); err != nil {
		t.Fatal(err)
	}
	if at := posthaste.Position(front).Time(); at.Before(later) {
		t.Errorf("the front of the lane is at %v, want %v", at, later)
	}
	if err := s.Release(t.Context(), later, []store.Claim{claim}); err != nil {
		t.Fatal(err)
	}
	claimAt(later, first)
	if report, err := postgres.Check(t.Context(), url); err != nil || len(report.Problems) > 0 {
		t.Errorf("problems %q, %v", report.Problems, err)
	}
}

// tidFirst finds a condition on a row's place, which PostgreSQL shows either way round.
var tidFirst = regexp.MustCompile(`\((\S+) = ctid\)`)

// Each table is read by conditions on its index that name what is looked for, whatever PostgreSQL
// knows of the tables when it makes a plan: nothing at first, and then that they are empty.
func TestPlansDoNotDependOnStatistics(t *testing.T) {
	byID := []string{"((user_id = w.k1) AND (id = w.k2))"}
	byKind := []string{"((user_id = w.k1) AND (kind = w.k2) AND "}
	wanted := map[string][]string{
		"users with ready lanes":  {"(ready <= $1)", "(node = n.node)"},
		"the next lane":           {"Index Scan using lanes_ready", "Index Cond: (ready >= $3)"},
		"messages of ready lanes": {"(ready <= $1)", "(lane = l.lane) AND (place >= l.front) AND (place <= $7))", "(lane = l.lane) AND (place > $7))", "((user_id = l.user_id) AND (lane = l.lane))", "((user_id = w_1.user_id) AND (id = w_1.id))"},
		"places":                  byID,
		"endings":                 byID,
		"messages":                byID,
		"records":                 byKind,
		"places that go":          byID,
		"messages that go":        byID,
		"endings that go":         byID,
		"records that go":         byKind,
		"terms that go":           {"((user_id = w.k1) AND (kind = w.k2) AND (term = w.k3) AND (at = w.k4))"},
		"users":                   {"((user_id = w.user_id) AND (\"position\" >= ", "Index Only Scan Backward using users_pkey"},
		"lanes of a queue":        {"((user_id = w.user_id) AND (kind = w.kind) AND (lane = w.lane))"},
		"totals":                  {"((user_id = w.user_id) AND (kind = w.kind) AND (lane = w.lane))", "(ctid = w_1.at)", "Index Cond: (user_id = w_2.user_id)", "(ctid = found.at)"},
		"empty lanes":             {"(user_id = $1)", "((user_id = l.user_id) AND (lane = l.lane))"},
		"lanes that a key blocks": {"((user_id = w.k1) AND (flow_key = w.k2))", "((user_id = w_1.user_id) AND (kind = w_1.kind) AND (lane = w_1.lane))"},
	}
	url := emptyDatabase(t)
	open(t, url)
	for _, known := range []string{`SELECT`, `ANALYZE`} {
		execute(t, url, known)
		for name, sql := range postgres.Planned {
			plan := tidFirst.ReplaceAllString(planOf(t, url, sql), "(ctid = $1)")
			for _, text := range append([]string{"Index Cond: "}, wanted[name]...) {
				if !strings.Contains(plan, text) {
					t.Errorf("after %s, the plan of %s lacks %q:\n%s", known, name, text, plan)
				}
			}
			for _, text := range []string{"Join Filter", "Seq Scan on l"} { // of lanes and live
				if strings.Contains(plan, text) {
					t.Errorf("after %s, the plan of %s has %q:\n%s", known, name, text, plan)
				}
			}
		}
	}
}

// planOf returns the plan of a statement for any parameters, in a transaction of the store.
func planOf(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var plan []string
	err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), postgres.Settings+`, set_config('plan_cache_mode', 'force_generic_plan', true)`); err != nil {
			return err
		}
		prepared, err := tx.Prepare(t.Context(), "planned", sql)
		if err != nil {
			return err
		}
		arguments := strings.TrimSuffix(strings.Repeat("NULL,", len(prepared.ParamOIDs)), ",")
		rows, err := tx.Query(t.Context(), `EXPLAIN EXECUTE planned (`+arguments+`)`, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		plan, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan, "\n")
}

// readRows counts the rows that statements return.
type readRows struct {
	mu    sync.Mutex
	count int64
}

func (r *readRows) add(rows int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count += rows
}

func (r *readRows) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (r *readRows) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	r.add(data.CommandTag.RowsAffected())
}

func (r *readRows) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (r *readRows) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	r.add(data.CommandTag.RowsAffected())
}

func (r *readRows) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
