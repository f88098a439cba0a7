package lsm_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func open(t testing.TB, fs vfs.FS) *ruled {
	t.Helper()
	s, err := openRuled("data", lsm.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func message(t *testing.T, url string, at time.Time) *posthaste.Message {
	t.Helper()
	id, err := posthaste.NewMessageID(at, strings.NewReader(url+"0123456789"))
	if err != nil {
		t.Fatal(err)
	}
	return &posthaste.Message{ID: id, User: "ann", URL: url, Body: []byte("hi"), CreatedAt: at, NotBefore: at}
}

// Contract, messages 3.
func TestClaimedMessagesAreDueAgainAfterReopening(t *testing.T) {
	fs := vfs.NewMem()
	first := open(t, fs)
	m := message(t, "http://a.example/x", noon)
	if _, err := first.Accept(t.Context(), noon, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
		t.Fatal(err)
	}
	claims, _, err := first.Claim(t.Context(), noon, 10)
	if err != nil || len(claims) != 1 {
		t.Fatalf("Claim: %d claims, %v", len(claims), err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(t, fs)
	again, _, err := second.Claim(t.Context(), noon, 10)
	if err != nil || len(again) != 1 || again[0].Message.ID != m.ID {
		t.Fatalf("Claim after reopening: %d claims, %v", len(again), err)
	}
	if _, err := ledger.New(second).Settle(t.Context(), noon, store.Delivered(claims[0])); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("Settle with the lease of the earlier store = %v, want ErrLeaseLost", err)
	}
	if _, err := ledger.New(second).Settle(t.Context(), noon, store.Delivered(again[0])); err != nil {
		t.Fatal(err)
	}
	page, err := store.ReadEvents(t.Context(), second, "ann", store.EventQuery{High: posthaste.MaxPosition, Limit: 10, OldestFirst: true})
	if err != nil {
		t.Fatal(err)
	}
	var states []posthaste.State
	for _, entry := range page.Entries {
		states = append(states, entry.State)
	}
	t.Log(states)
	if len(states) != 4 {
		t.Errorf("states = %v", states)
	}
}

// TestPausesSurviveReopening checks that nothing that was paused goes on because
// the process was replaced (contract, messages 6.3).
func TestPausesSurviveReopening(t *testing.T) {
	fs := vfs.NewMem()
	first := open(t, fs)
	if err := errors.Join(
		first.UpdateQueue(t.Context(), noon, "ann", "q", func(q *posthaste.Queue) error {
			q.Parallelism, q.Paused = 1, true
			return nil
		}),
		first.UpdateFlowKey(t.Context(), noon, "ann", "k", func(k *posthaste.FlowKey) error {
			k.Paused = true
			return nil
		}),
		first.UpdateSchedule(t.Context(), noon, "ann", "s", func(s *posthaste.Schedule) error {
			s.Paused, s.NextAt = true, noon
			return nil
		}),
	); err != nil {
		t.Fatal(err)
	}
	queued, keyed := message(t, "http://q.example/", noon), message(t, "http://k.example/", noon)
	queued.Queue, keyed.FlowControl.Key = "q", "k"
	if _, err := first.Accept(t.Context(), noon, []store.Submission{{Messages: []*posthaste.Message{queued, keyed}}}); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second := open(t, fs)
	if claims, _, err := second.Claim(t.Context(), noon, 10); err != nil || len(claims) != 0 {
		t.Errorf("Claim after reopening: %d claims, %v; want none", len(claims), err)
	}
	if due, _, err := second.DueSchedules(t.Context(), noon, 10); err != nil || len(due) != 0 {
		t.Errorf("DueSchedules after reopening: %d, %v; want none", len(due), err)
	}
	resume := func(q *posthaste.Queue) error {
		q.Paused = false
		return nil
	}
	if err := second.UpdateQueue(t.Context(), noon, "ann", "q", resume); err != nil {
		t.Fatal(err)
	}
	if claims, _, err := second.Claim(t.Context(), noon, 10); err != nil || len(claims) != 1 || claims[0].Message.ID != queued.ID {
		t.Errorf("Claim after the queue was resumed: %d claims, %v; want its message", len(claims), err)
	}
}

func TestOpenRefusesADirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	s, err := openRuled(dir, lsm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := openRuled(dir, lsm.Options{}); !errors.Is(err, lsm.ErrLocked) {
		t.Errorf("second Open = %v, want ErrLocked", err)
	}
}

// forbidden is a disk on which nobody may lock anything.
type forbidden struct{ vfs.FS }

// Lock implements vfs.FS.
func (forbidden) Lock(name string) (io.Closer, error) {
	return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EACCES}
}

func TestOpenOfADirectoryThatMayNotBeWritten(t *testing.T) {
	_, err := openRuled("data", lsm.Options{FS: forbidden{vfs.NewMem()}})
	if err == nil || errors.Is(err, lsm.ErrLocked) || !strings.Contains(err.Error(), "may not be written by this user") {
		t.Errorf("Open = %v, want that the directory may not be written", err)
	}
}

func BenchmarkLife(b *testing.B) {
	s, err := openRuled(b.TempDir(), lsm.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	go func() {
		for range s.Wake() {
			claims, _, err := s.Claim(b.Context(), time.Now(), 4096)
			if err != nil {
				return
			}
			for _, c := range claims {
				go func() { _, _ = ledger.New(s).Settle(b.Context(), time.Now(), store.Delivered(c)) }()
			}
		}
	}()
	body := make([]byte, 512)
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			now := time.Now().Truncate(time.Millisecond)
			id, _ := posthaste.NewMessageID(now, randReader{})
			m := &posthaste.Message{ID: id, User: "ann", URL: "http://a.example/x", Body: body, CreatedAt: now, NotBefore: now, CallerIP: "127.0.0.1"}
			if _, err := s.Accept(b.Context(), now, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
				b.Error(err)
			}
		}
	})
}
