package lsm_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
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
	err := first.Transact(t.Context(), noon, "ann", func(tx store.RunTx) error {
		run := &posthaste.Run{
			RunRef:      posthaste.RunRef{ID: "run", Position: tx.NextPosition()},
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
	err := s.Transact(t.Context(), noon, "ann", func(tx store.RunTx) error {
		for n := range many {
			run := &posthaste.Run{
				RunRef:      posthaste.RunRef{ID: fmt.Sprint("run-", n), Position: tx.NextPosition()},
				RunProgress: posthaste.RunProgress{State: posthaste.RunFailed, CompletedAt: noon},
			}
			tx.Start(run)
			run.DeadLetterID = posthaste.DeadLetterID(tx.NextPosition())
			tx.Bury(run, &posthaste.DeadLetter{ID: run.DeadLetterID, Message: &posthaste.Message{}})
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

// crashing takes the disk as it is after each commit.
type crashing struct {
	disk  *vfs.MemFS
	disks []*vfs.MemFS
}

func (c *crashing) Committed(int, time.Duration, time.Duration) {
	c.disks = append(c.disks, c.disk.CrashClone(vfs.CrashCloneCfg{}))
}

// A crash between the days that are dropped leaves a store in which all fits together.
func TestCrashWhileDaysAreDropped(t *testing.T) {
	const day = 24 * time.Hour
	disks := &crashing{disk: vfs.NewCrashableMem()}
	s, err := lsm.Open("data", lsm.Options{FS: disks.disk, Observer: disks})
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
	if err := s.Settle(t.Context(), m.NotBefore, store.Delivered(claims[0])); err != nil {
		t.Fatal(err)
	}
	before := len(disks.disks)
	if trimmed, err := s.Trim(t.Context(), "ann", store.Horizon{Log: noon.Add(3 * day)}); err != nil || trimmed.Days != 2 {
		t.Fatalf("Trim = %+v, %v, want two days", trimmed, err)
	}
	for n, disk := range disks.disks[before:] {
		report, err := lsm.Check("data", lsm.Options{FS: disk})
		if err != nil || len(report.Problems) > 0 {
			t.Errorf("after commit %d: %v, %q", n+1, err, report.Problems)
		}
	}
}
