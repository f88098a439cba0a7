package lsm_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// BenchmarkRetention delivers a hundred thousand messages a day to a store that keeps three
// days, and tells how much is on disk behind each removal of a day, of what there was when the
// window was full for the first time. Nobody asks for compactions. It takes some minutes.
func BenchmarkRetention(b *testing.B) {
	const (
		perDay = 100_000
		days   = 11
		window = 3
		pause  = 12 * time.Second // in which what was dropped begins to leave the disk
	)
	for b.Loop() {
		dir := b.TempDir()
		s, err := openRuled(dir, lsm.Options{})
		if err != nil {
			b.Fatal(err)
		}
		var steady, most int64
		for number := range days {
			today := noon.Add(time.Duration(number) * 24 * time.Hour)
			deliverMany(b, s, today, perDay)
			horizon := store.Horizon{Log: today.Add(-window * 24 * time.Hour)}
			if _, err := s.Trim(b.Context(), "ann", horizon); err != nil {
				b.Fatal(err)
			}
			time.Sleep(pause)
			size := tablesSize(b, dir)
			b.Logf("day %d: %d MB in tables", number, size>>20)
			switch {
			case number == window+1:
				steady = size
			case number > window+1:
				most = max(most, size)
			}
		}
		b.ReportMetric(float64(steady)/(1<<20), "MB")
		b.ReportMetric(float64(most)/float64(steady), "most/full")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// deliverMany delivers messages with bodies that nothing can compress.
func deliverMany(b *testing.B, s *ruled, now time.Time, messages int) {
	const batch = 500
	for first := 0; first < messages; first += batch {
		now = now.Add(100 * time.Millisecond)
		submissions := make([]store.Submission, batch)
		for i := range submissions {
			m := loggedMessage(first+i, now)
			_, _ = rand.Read(m.Body)
			submissions[i].Messages = []*posthaste.Message{m}
		}
		if _, err := s.Accept(b.Context(), now, submissions); err != nil {
			b.Fatal(err)
		}
		settleAll(b, s, now)
	}
	settleAll(b, s, now.Add(time.Minute))
}

// tablesSize returns the bytes of the tables in a directory: the write-ahead logs beside them
// are bounded, and used again.
func tablesSize(b *testing.B, dir string) (size int64) {
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		b.Fatal(err)
	}
	for _, table := range tables {
		if info, err := os.Stat(table); err == nil { // else a compaction has removed it
			size += info.Size()
		}
	}
	return size
}
