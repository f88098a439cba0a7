package lsm_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
)

// heldSyncs is a file system whose syncs wait while a channel is open.
func heldSyncs(held *chan struct{}) vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			if wait := *held; wait != nil {
				<-wait
			}
		}
		return nil
	}))
}

// TestReadersSeeWhatIsDurable holds the sync of a settlement: nobody is told of it
// before, and whoever is finds it in the log.
func TestReadersSeeWhatIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held chan struct{}
		s := open(t, heldSyncs(&held))
		m := message(t, "http://a.example/x", noon)
		if _, err := s.Accept(t.Context(), noon, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
			t.Fatal(err)
		}
		claims, _, err := s.Claim(t.Context(), noon, 1)
		if err != nil || len(claims) != 1 {
			t.Fatalf("Claim: %d claims, %v", len(claims), err)
		}
		synctest.Wait()

		hold := make(chan struct{})
		held = hold
		release := sync.OnceFunc(func() { held = nil; close(hold) })
		defer release()
		settled, read := make(chan error, 1), make(chan store.Status, 1)
		go func() {
			_, err := ledger.New(s).Settle(t.Context(), noon, store.Delivered(claims[0]))
			settled <- err
		}()
		synctest.Wait()
		go func() {
			status, err := s.Message(t.Context(), m.User, m.ID)
			if err != nil {
				t.Error(err)
			}
			page, err := store.ReadEvents(t.Context(), s, m.User, store.EventQuery{High: posthaste.MaxPosition, Limit: 1})
			if err != nil || len(page.Entries) == 0 || page.Entries[0].State != status.State {
				t.Errorf("a reader sees %s, and the log ends with %+v, %v", status.State, page.Entries, err)
			}
			read <- status
		}()
		synctest.Wait()
		select {
		case status := <-read:
			t.Fatalf("a reader sees %s before that is durable", status.State)
		case err := <-settled:
			t.Fatalf("Settle = %v before that is durable", err)
		default:
		}
		release()
		if err := <-settled; err != nil {
			t.Fatal(err)
		}
		if status := <-read; status.State != posthaste.StateDelivered {
			t.Errorf("a reader sees %s, want DELIVERED", status.State)
		}
	})
}
