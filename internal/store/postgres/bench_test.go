package postgres_test

import (
	"log/slog"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/partition"
	"posthaste/internal/store/postgres"
	"posthaste/internal/store/postgres/pgtest"
)

// BenchmarkLife takes messages of one user through their lives, from acceptance to
// delivery, by many who accept and settle at once, and also beside a snapshot of the database, as
// pg_dump holds one.
func BenchmarkLife(b *testing.B) {
	b.Run("alone", func(b *testing.B) { takeThroughLives(b, openBench(b, claimingAccepted), clientsOfLife) })
	b.Run("beside a snapshot", func(b *testing.B) {
		url, err := cluster.Create()
		if err != nil {
			b.Fatal(err)
		}
		s := openWith(b, url, claimingAccepted)
		other, err := pgx.Connect(b.Context(), url)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = other.Close(b.Context()) }()
		if _, err := other.Exec(b.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT`); err != nil {
			b.Fatal(err)
		}
		takeThroughLives(b, s, clientsOfLife)
	})
}

// clientsOfLife is how many accept, and how many settle.
const clientsOfLife = 32

// BenchmarkDatabases is the same for users who are divided among one, two or three databases, with as many clients
// for each, and reports the processor time of all of them.
func BenchmarkDatabases(b *testing.B) {
	for _, databases := range []int{1, 2, 3} {
		b.Run(strconv.Itoa(databases), func(b *testing.B) {
			var urls []string
			for range databases {
				url, err := cluster.Create()
				if err != nil {
					b.Fatal(err)
				}
				urls = append(urls, url)
			}
			options := claimingAccepted
			options.Partitions, options.Logger = 16, slog.New(slog.DiscardHandler)
			s, err := postgres.OpenDatabases(b.Context(), urls, options)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			l := ledger.New(partition.New(s))
			spent := func() (sum time.Duration) {
				for _, url := range urls {
					sum += processorTime(b, url)
				}
				return sum
			}
			before := spent()
			takeThroughLives(b, l, clientsOfLife*databases)
			b.ReportMetric(float64((spent()-before).Microseconds())/1000/float64(b.N), "database-ms/message")
		})
	}
}

func takeThroughLives(b *testing.B, s store.Store, clients int) {
	var left, delivered atomic.Int64
	left.Store(int64(b.N))
	var working sync.WaitGroup
	b.ResetTimer()
	for range clients {
		working.Go(func() {
			for left.Add(-1) >= 0 {
				m := newMessage(time.Now())
				m.URL, m.Body = "http://destination.example/", make([]byte, 512)
				if err := acceptOne(b.Context(), s, m); err != nil {
					b.Error(err)
				}
			}
		})
	}
	claims := make(chan store.Claim, clients)
	for range clients {
		working.Go(func() {
			for claim := range claims {
				if _, err := s.Settle(b.Context(), time.Now(), store.Delivered(claim)); err != nil {
					b.Error(err)
				}
				delivered.Add(1)
			}
		})
	}
	for delivered.Load() < int64(b.N) && !b.Failed() {
		claimed, _, err := s.Claim(b.Context(), time.Now(), 128*clients)
		if err != nil {
			b.Error(err)
		}
		for _, claim := range claimed {
			claims <- claim
		}
	}
	close(claims)
	working.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

// BenchmarkAlone takes one message after the other through its life, straight and through
// poolers that track prepared statements or not, and reports what the database's processor has to do.
func BenchmarkAlone(b *testing.B) {
	database := func(url string) string { return path.Base(strings.TrimSuffix(url, "?sslmode=disable")) }
	straight := func(_ *testing.B, url string) string { return url }
	for name, through := range map[string]func(b *testing.B, url string) string{
		"straight":     straight,
		"4 partitions": straight,
		"a pooler":     func(b *testing.B, url string) string { return cluster.Pooler(b, database(url), true) },
		"an older pooler": func(b *testing.B, url string) string {
			return cluster.Pooler(b, database(url), false) + "&default_query_exec_mode=exec"
		},
	} {
		b.Run(name, func(b *testing.B) {
			url, err := cluster.Create()
			if err != nil {
				b.Fatal(err)
			}
			options := claimingAccepted
			if name == "4 partitions" {
				options.Partitions = 4
			}
			s := openWith(b, through(b, url), options)
			for range 20 {
				live(b, s)
			}
			before := processorTime(b, url)
			b.ResetTimer()
			for range b.N {
				live(b, s)
			}
			b.ReportMetric(float64((processorTime(b, url)-before).Microseconds())/1000/float64(b.N), "database-ms/message")
		})
	}
}

// live takes a message through its life.
func live(b testing.TB, s *ruled) {
	b.Helper()
	if err := acceptOne(b.Context(), s, plainMessage(s)); err != nil {
		b.Fatal(err)
	}
	claims, _, err := s.Claim(b.Context(), s.Now(), 100)
	if err != nil || len(claims) != 1 {
		b.Fatalf("Claim = %d claims, %v, want 1", len(claims), err)
	}
	if _, err := s.Settle(b.Context(), s.Now(), store.Delivered(claims[0])); err != nil {
		b.Fatal(err)
	}
}

// processorTime returns how long the processes of a database's connections have run.
func processorTime(b *testing.B, url string) time.Duration {
	b.Helper()
	sum, err := pgtest.ProcessorTime(b.Context(), url)
	if err != nil {
		b.Skip(err)
	}
	return sum
}
