package lsm

import (
	"context"
	"errors"
	"testing"

	"posthaste/internal/store"
)

// TestAnAbandonedChangeIsNotMade gives up while another change is at work. The change that nobody
// waits for is not made, and what it has found out may be read.
func TestAnAbandonedChangeIsNotMade(t *testing.T) {
	s := openInMemory(t)
	begun, finish := make(chan struct{}), make(chan struct{})
	slow := make(chan error, 1)
	go func() {
		slow <- s.Update(context.Background(), noonOfRuns, store.Scope{User: "ann"}, func(store.Tx) error {
			close(begun)
			<-finish
			return nil
		})
	}()
	<-begun
	gaveUp := errors.New("gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	go cancel(gaveUp)
	calls := 0
	err := s.Update(ctx, noonOfRuns, store.Scope{User: "ann"}, func(tx store.Tx) error {
		calls++
		tx.Put(store.ItemQueue, []byte("q"), []byte("x"), store.Found{}, store.Found{})
		return nil
	})
	if !errors.Is(err, gaveUp) || calls != 0 {
		t.Errorf("Update = %v after %d calls, want %v and none", err, calls, gaveUp)
	}
	close(finish)
	if err := <-slow; err != nil {
		t.Fatal(err)
	}
	err = s.View(t.Context(), store.Scope{User: "ann"}, func(r store.Reader) error {
		_, err := r.Get(store.ItemQueue, []byte("q"))
		return err
	})
	if !errors.Is(err, store.ErrNotFound) || calls != 0 {
		t.Errorf("what the abandoned change would have written: %v after %d calls, want none", err, calls)
	}
}
