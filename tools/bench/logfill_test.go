package main

import (
	"log/slog"
	mathrand "math/rand/v2"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// openStore opens an empty store for the time of the test.
func openStore(t *testing.T) store.Store {
	t.Helper()
	s, err := ledger.Over(lsm.Open(t.TempDir(), lsm.Options{Logger: slog.New(slog.DiscardHandler)}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestHistoryDeliversAsItGoes stores a history and looks for what waits then: delivered
// at the end, it would all have happened at one moment.
func TestHistoryDeliversAsItGoes(t *testing.T) {
	h := &history{user: benchingUser, size: 16, until: time.Now(), span: time.Hour, total: 20_000}
	s := openStore(t)
	if err := h.prepare(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := byAll(func(random *mathrand.Rand) error { return h.writeSome(t.Context(), s, random) }); err != nil {
		t.Fatal(err)
	}
	waiting := 0
	for {
		n, err := h.deliver(t.Context(), s, mathrand.New(mathrand.NewPCG(1, 1)), h.until)
		if err != nil {
			t.Fatal(err)
		}
		if waiting += n; n == 0 {
			break
		}
	}
	if waiting > h.total/10 {
		t.Errorf("%d of %d messages were left waiting", waiting, h.total)
	}
}

// TestHistoryEndsItsRuns stores a history with runs and looks what became of them.
func TestHistoryEndsItsRuns(t *testing.T) {
	h := &history{user: benchingUser, size: 16, until: time.Now(), span: time.Hour, total: 10 * historyBatch, runs: 20}
	s := openStore(t)
	if err := h.writeTo(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	ended := map[posthaste.RunState]int{}
	query := store.RunQuery{High: posthaste.MaxPosition, Limit: h.total}
	page, err := s.Runs(t.Context(), benchingUser, query)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range page.Runs {
		ended[run.State]++
		if run.State == posthaste.RunSuccess && run.Entries != runDeliveries {
			t.Errorf("run %s succeeded after %d deliveries, want %d", run.ID, run.Entries, runDeliveries)
		}
	}
	if begun := 10 * h.runs; ended[posthaste.RunSuccess]+ended[posthaste.RunFailed] != begun || ended[posthaste.RunSuccess] < begun/2 {
		t.Errorf("runs ended as %v, want %d, most of them in success", ended, begun)
	}
	query.Failed = true
	if failed, err := s.Runs(t.Context(), benchingUser, query); err != nil || len(failed.Runs) != ended[posthaste.RunFailed] {
		t.Errorf("%d runs are in the DLQ, %v, want the %d that failed", len(failed.Runs), err, ended[posthaste.RunFailed])
	}
}

// TestHistoryKnowsWhatEnded stores a history with runs and looks for what it knows before its
// middle.
func TestHistoryKnowsWhatEnded(t *testing.T) {
	h := &history{user: benchingUser, size: 16, until: time.Now(), span: time.Hour, total: 100 * historyBatch, runs: runsEach}
	s := openStore(t)
	if err := h.writeTo(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for what, filter := range map[string]posthaste.Filter{
		"message": {MessageIDs: []posthaste.MessageID{h.known}},
		"run":     {OfRuns: true, RunIDs: []string{h.knownRun}},
	} {
		page, err := store.ReadEvents(t.Context(), s, benchingUser, store.EventQuery{
			Filter: filter, High: posthaste.LastPosition(h.middle()), Limit: h.total,
		})
		if err != nil || len(page.Entries) < entriesDelivered {
			t.Errorf("the %s has %d entries before the middle, %v, want %d at least", what, len(page.Entries), err, entriesDelivered)
		}
	}
}
