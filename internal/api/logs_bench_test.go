package api_test

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/api"
	"posthaste/internal/eventlog"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// BenchmarkLogs reads pages of the log, and the whole of it, as a client gets them, from a store in
// memory.
func BenchmarkLogs(b *testing.B) {
	const messages = 10_000
	surface := logSurface(b, messages)
	for _, test := range []struct{ name, query string }{
		{"all/1000", "count=1000"},
		{"all/100", "count=100"},
		{"state/1000", "count=1000&state=DELIVERED"},
		{"failed attempts/1000", "count=1000&state=ERROR"},
		{"label and state/1000", "count=1000&state=DELIVERED&label=label-1"},
	} {
		b.Run(test.name, func(b *testing.B) { readLog(b, surface, test.query, "application/json") })
	}
	b.Run("export", func(b *testing.B) {
		readLog(b, surface, "", "application/x-ndjson")
		b.ReportMetric(float64(3*messages*b.N)/b.Elapsed().Seconds(), "entries/s")
	})
}

func readLog(b *testing.B, surface http.Handler, query, accept string) {
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodGet, "/v2/logs?"+query, nil)
		r.Header.Set("Authorization", "Bearer full")
		r.Header.Set("Accept", accept)
		w := &discarded{header: http.Header{}}
		surface.ServeHTTP(w, r)
		if w.status != http.StatusOK || w.bytes < 10_000 {
			b.Fatalf("an answer of %d bytes with status %d", w.bytes, w.status)
		}
		b.SetBytes(int64(w.bytes))
	}
}

// discarded is a response of which only status and size are kept.
type discarded struct {
	header        http.Header
	status, bytes int
}

func (w *discarded) Header() http.Header    { return w.header }
func (w *discarded) WriteHeader(status int) { w.status = status }
func (w *discarded) Flush()                 {}
func (w *discarded) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.bytes += len(p)
	return len(p), nil
}

func (*discarded) SetReadDeadline(time.Time) error  { return nil }
func (*discarded) SetWriteDeadline(time.Time) error { return nil }

// logSurface returns the API in front of a log of messages with bodies that were delivered, over
// three days; each tenth failed once.
func logSurface(b *testing.B, messages int) http.Handler {
	backend, err := lsm.Open("data", lsm.Options{FS: vfs.NewMem(), CacheSize: 256 << 20})
	if err != nil {
		b.Fatal(err)
	}
	s := ledger.New(backend)
	b.Cleanup(func() { _ = s.Close() })
	random := mathrand.New(mathrand.NewPCG(1, 2))
	const batch = 250
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for first := 0; first < messages; first += batch {
		at = at.Add(72 * time.Hour * batch / time.Duration(messages))
		var submissions []store.Submission
		for i := range batch {
			submissions = append(submissions, store.Submission{Messages: []*posthaste.Message{benchMessage(b, at, first+i)}})
		}
		if _, err := s.Accept(b.Context(), at, submissions); err != nil {
			b.Fatal(err)
		}
		for now := at; ; now = now.Add(time.Second) {
			claims, _, err := s.Claim(b.Context(), now, batch)
			if err != nil {
				b.Fatal(err)
			}
			if len(claims) == 0 {
				break
			}
			var settling sync.WaitGroup
			for _, claim := range claims {
				settlement := store.Delivered(claim)
				if claim.Retried == 0 && random.IntN(10) == 0 {
					settlement = store.RetryAt(claim, now.Add(time.Second), posthaste.Outcome{
						Class:    posthaste.OutcomeRetryable,
						Response: &posthaste.Response{Status: 503, Header: http.Header{"Retry-After": {"1"}}, Body: []byte("try again later")},
						Error:    "the destination is not well",
					})
				}
				settling.Go(func() {
					if _, err := s.Settle(b.Context(), now, settlement); err != nil {
						b.Error(err)
					}
				})
			}
			settling.Wait()
		}
	}
	if err := backend.Compact(b.Context()); err != nil {
		b.Fatal(err)
	}
	return api.New(api.Options{
		Log:           eventlog.New(eventlog.Options{Store: s}),
		Authenticator: fakeTokens{},
		MaxBody:       1 << 20,
		Logger:        slog.New(slog.DiscardHandler),
		Serving:       b.Context(),
	})
}

func benchMessage(b *testing.B, now time.Time, number int) *posthaste.Message {
	id, err := posthaste.NewMessageID(now, rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	m := &posthaste.Message{
		ID: id, User: "ann", CreatedAt: now, NotBefore: now, CallerIP: fmt.Sprintf("10.0.0.%d", number%100),
		URL: fmt.Sprintf("https://host-%d.example.com/hook", number%7),
		Settings: posthaste.Settings{
			Method: http.MethodPost, Labels: []string{fmt.Sprintf("label-%d", number%5)},
			Header: http.Header{"Content-Type": {"application/octet-stream"}},
		},
		Body: make([]byte, 512),
	}
	_, _ = rand.Read(m.Body)
	return m
}
