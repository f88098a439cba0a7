package lsm_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// A message that was in flight when its run ended is handed out after a restart, also
// when the run is gone and the body with it: nothing else of its lane could be handed
// out before it.
func TestClaimOfAMessageWhoseRunIsGone(t *testing.T) {
	fs := vfs.NewMem()
	first := open(t, fs)
	m := message(t, "http://a.example/x", noon)
	err := ledger.New(first).Transact(t.Context(), noon, "ann", func(tx store.RunTx) error {
		run := &posthaste.Run{
			RunRef:      posthaste.RunRef{ID: "run", Position: tx.NextPosition(m.ID.Slot())},
			RunProgress: posthaste.RunProgress{State: posthaste.RunSuccess, CompletedAt: noon},
		}
		tx.Start(run)
		m.Run = &posthaste.RunLink{RunRef: run.RunRef, CallType: posthaste.CallStep}
		return tx.Append(run, posthaste.RunEntry{MessageID: m.ID, Body: m.Body}, m)
	})
	if err != nil {
		t.Fatal(err)
	}
	trimmed, err := first.Trim(t.Context(), "ann", store.Horizon{Runs: noon.Add(time.Hour)})
	if err != nil || trimmed.Runs != 1 {
		t.Fatalf("Trim = %+v, %v, want one run", trimmed, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	claims, _, err := open(t, fs).Claim(t.Context(), noon, 10)
	if err != nil || len(claims) != 1 || claims[0].Message.ID != m.ID || len(claims[0].Message.Body) > 0 {
		t.Errorf("Claim = %+v, %v, want the message without a body", claims, err)
	}
}

// What one commit does not remove the next one does.
func TestTrimOfManyRuns(t *testing.T) {
	const many = 450
	s := open(t, vfs.NewMem())
	err := ledger.New(s).Transact(t.Context(), noon, "ann", func(tx store.RunTx) error {
		for n := range many {
			run := &posthaste.Run{
				RunRef:      posthaste.RunRef{ID: fmt.Sprint("run-", n), Position: tx.NextPosition(0)},
				RunProgress: posthaste.RunProgress{State: posthaste.RunFailed, CompletedAt: noon},
			}
			tx.Start(run)
			run.DeadLetterID = posthaste.DeadLetterID(tx.NextPosition(0))
			tx.AddToDLQ(run, &posthaste.DeadLetter{ID: run.DeadLetterID, Message: &posthaste.Message{}})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	later := noon.Add(time.Hour)
	for _, test := range []struct {
		name    string
		horizon store.Horizon
		want    store.Trimmed
	}{
		{"all are in the DLQ", store.Horizon{Runs: later}, store.Trimmed{}},
		{"the DLQ", store.Horizon{DeadLetters: later}, store.Trimmed{DeadLetters: many}},
		{"the runs", store.Horizon{Runs: later}, store.Trimmed{Runs: many}},
		{"nothing is left", store.Horizon{DeadLetters: later, Runs: later}, store.Trimmed{}},
	} {
		if got, err := s.Trim(t.Context(), "ann", test.horizon); err != nil || got != test.want {
			t.Errorf("%s: Trim = %+v, %v, want %+v", test.name, got, err, test.want)
		}
	}
}

// crashing takes the disk as it is after each commit, from when it is to.
type crashing struct {
	disk    *vfs.MemFS
	watches bool
	disks   []*vfs.MemFS
}

func (c *crashing) Committed(int, time.Duration, time.Duration) {
	if c.watches {
		c.disks = append(c.disks, c.disk.CrashClone(vfs.CrashCloneCfg{}))
	}
}

// A crash between the days that are dropped leaves a store in which all fits together.
func TestCrashWhileDaysAreDropped(t *testing.T) {
	const day = 24 * time.Hour
	disks := &crashing{disk: vfs.NewCrashableMem()}
	s, err := openRuled("data", lsm.Options{FS: disks.disk, Observer: disks})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	m := message(t, "http://a.example/x", noon)
	m.NotBefore = noon.Add(day)
	if _, err := s.Accept(t.Context(), noon, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
		t.Fatal(err)
	}
	claims, _, err := s.Claim(t.Context(), m.NotBefore, 1)
	if err != nil || len(claims) != 1 {
		t.Fatalf("Claim: %d claims, %v", len(claims), err)
	}
	if _, err := ledger.New(s).Settle(t.Context(), m.NotBefore, store.Delivered(claims[0])); err != nil {
		t.Fatal(err)
	}
	disks.watches = true
	if trimmed, err := s.Trim(t.Context(), "ann", store.Horizon{Log: noon.Add(3 * day)}); err != nil || trimmed.Days != 2 {
		t.Fatalf("Trim = %+v, %v, want two days", trimmed, err)
	}
	for n, disk := range disks.disks {
		report, err := lsm.Check("data", lsm.Options{FS: disk})
		if err != nil || len(report.Problems) > 0 {
			t.Errorf("after commit %d: %v, %q", n+1, err, report.Problems)
		}
	}
}

// TestTrimBesideManyThatWait drops a day in which thousands of messages wait: one behind the
// other, and with those that were delivered between them, few and many in a row. Each commit
// removes some, so that others are made meanwhile.
func TestTrimBesideManyThatWait(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing happens at the same time, and much is stored")
	}
	const (
		many = 2700
		day  = 24 * time.Hour
	)
	waits := func(n int) bool { return n < 200 || n%2 == 0 && n < 2400 }
	disks := &crashing{disk: vfs.NewCrashableMem()}
	s, err := openRuled("data", lsm.Options{FS: disks.disk, Observer: disks})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var messages []*posthaste.Message
	waiting := map[posthaste.MessageID]bool{}
	for n := range many {
		m := message(t, fmt.Sprintf("%010d.example/x", n), noon)
		if waits(n) {
			m.NotBefore = noon.Add(30 * day)
			waiting[m.ID] = true
		}
		messages = append(messages, m)
	}
	if _, err := s.Accept(t.Context(), noon, []store.Submission{{Messages: messages}}); err != nil {
		t.Fatal(err)
	}
	deliverAll(t, s, noon, many-len(waiting))
	disks.watches = true
	for turn, want := range []int{1, 0} {
		trimmed, err := s.Trim(t.Context(), "ann", store.Horizon{Log: noon.Add(2 * day)})
		if err != nil || trimmed.Days != want {
			t.Fatalf("turn %d: Trim = %+v, %v, want %d days", turn+1, trimmed, err, want)
		}
	}
	disks.watches = false
	if len(disks.disks) < 3 {
		t.Errorf("it took %d commits to remove %d messages", len(disks.disks), many-len(waiting))
	}
	for n, disk := range disks.disks {
		if report, err := lsm.Check("data", lsm.Options{FS: disk}); err != nil || len(report.Problems) > 0 {
			t.Errorf("after commit %d: %v, %q", n+1, err, report.Problems)
		}
	}
	for _, m := range messages {
		_, err := s.Message(t.Context(), "ann", m.ID)
		if waiting[m.ID] && err != nil || !waiting[m.ID] && !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("message %s, waiting %t: %v", m.ID, waiting[m.ID], err)
		}
	}
	if claimed := deliverAll(t, s, noon.Add(30*day), len(waiting)); claimed != len(waiting) {
		t.Errorf("%d of %d messages that waited were handed out", claimed, len(waiting))
	}
}

// deliverAll delivers so many messages, or all that are due, and returns how many.
func deliverAll(t *testing.T, s *ruled, now time.Time, wanted int) (delivered int) {
	t.Helper()
	for delivered < wanted {
		claims, _, err := s.Claim(t.Context(), now, 500)
		if err != nil {
			t.Fatal(err)
		}
		if len(claims) == 0 {
			break
		}
		for _, claim := range claims {
			if len(claim.Message.Body) == 0 {
				t.Errorf("message %s has no body", claim.Message.ID)
			}
			if _, err := ledger.New(s).Settle(t.Context(), now, store.Delivered(claim)); err != nil {
				t.Fatal(err)
			}
		}
		delivered += len(claims)
	}
	return delivered
}
