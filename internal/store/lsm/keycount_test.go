package lsm_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"posthaste"
	"posthaste/internal/store"
)

// TestKeysOfAMessage counts what a message writes that is accepted and delivered alone, in two
// commits; messages of one commit share most of it. On a busy machine the attempt begins in a
// commit of its own, so the keys of a commit are counted. Keys are what a message costs the
// store: who adds one raises the number here, and says in the commit what it is for.
func TestKeysOfAMessage(t *testing.T) {
	const messages, most = 100, 16
	fs := vfs.NewMem()
	s := open(t, fs)
	for number := range messages {
		now := noon.Add(time.Duration(number) * 10 * time.Millisecond)
		m := loggedMessage(number, now)
		m.Labels = nil
		if _, err := s.Accept(t.Context(), now, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
			t.Fatal(err)
		}
		if n := deliverAll(t, s, now, 1); n != 1 {
			t.Fatalf("%d messages were delivered, want 1", n)
		}
	}
	kinds, commits := loggedKeys(t, fs)
	sum := 0
	for _, n := range kinds {
		sum += n
	}
	if got := float64(sum) / float64(commits); got > most {
		t.Errorf("a commit writes %.2f keys, at most %v are expected; of %d messages in %d commits: %v", got, most, messages, commits, kinds)
	}
}

// loggedKeys counts the keys in a store's write-ahead log by their first byte, and those of a
// day by the byte after the day, too. It returns the number of commits as well.
func loggedKeys(t *testing.T, fs vfs.FS) (counts map[string]int, commits int) {
	t.Helper()
	logs, err := wal.Scan(wal.Dir{FS: fs, Dirname: "data"})
	if err != nil {
		t.Fatal(err)
	}
	counts = map[string]int{}
	for _, log := range logs {
		records := log.OpenForRead()
		for {
			record, _, err := records.NextRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			batch, readErr := io.ReadAll(record)
			if err := errors.Join(err, readErr); err != nil {
				t.Fatal(err)
			}
			commits++
			for r := batchrepr.Read(batch); ; {
				_, key, _, ok, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				kind := string(key[:1])
				if kind == "s" {
					kind += " " + string(key[3])
				}
				counts[kind]++
			}
		}
		if err := records.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return counts, commits
}
