package postgres_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
)

// BenchmarkLife takes messages of one user through their lives, from acceptance to
// delivery, by many who accept and settle at once.
func BenchmarkLife(b *testing.B) {
	const clients = 32
	url, err := cluster.Create()
	if err != nil {
		b.Fatal(err)
	}
	s, err := postgres.Open(b.Context(), url, postgres.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	rules := newRuled(s)
	var left, delivered atomic.Int64
	left.Store(int64(b.N))
	var working sync.WaitGroup
	b.ResetTimer()
	for range clients {
		working.Go(func() {
			for left.Add(-1) >= 0 {
				m := newMessage(time.Now())
				m.URL, m.Body = "http://destination.example/", make([]byte, 512)
				if err := acceptOne(b.Context(), rules, m); err != nil {
					b.Error(err)
				}
			}
		})
	}
	claims := make(chan store.Claim, clients)
	for range clients {
		working.Go(func() {
			for claim := range claims {
				if err := rules.Settle(b.Context(), time.Now(), store.Delivered(claim)); err != nil {
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
