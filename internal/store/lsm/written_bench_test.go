package lsm_test

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// BenchmarkWritten delivers messages, 32 at a time, and reports how many bytes the store wrote
// for each byte of their bodies: to its log, to its tables and again in compactions.
func BenchmarkWritten(b *testing.B) {
	const together = 32
	for _, test := range []struct{ size, messages int }{{512, 150_000}, {100_000, 5_000}} {
		b.Run(fmt.Sprintf("body=%d", test.size), func(b *testing.B) {
			for b.Loop() {
				s, err := openRuled(b.TempDir(), lsm.Options{})
				if err != nil {
					b.Fatal(err)
				}
				now := noon
				for first := 0; first < test.messages; first += together {
					now = now.Add(10 * time.Millisecond)
					submissions := make([]store.Submission, together)
					for i := range submissions {
						m := loggedMessage(first+i, now)
						m.Body = make([]byte, test.size)
						_, _ = rand.Read(m.Body) // cannot be compressed
						submissions[i].Messages = []*posthaste.Message{m}
					}
					if _, err := s.Accept(b.Context(), now, submissions); err != nil {
						b.Fatal(err)
					}
					settleAll(b, s, now)
				}
				stats, err := s.Stats(b.Context(), now)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(stats.WrittenBytes)/float64(test.messages*test.size), "written/body")
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
