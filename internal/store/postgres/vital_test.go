package postgres_test

import (
	"context"
	"testing"

	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
)

// A node whose connections are all in use goes on saying that it lives, and hears what
// others commit.
func TestABusyNodeIsNotTakenForDead(t *testing.T) {
	url := emptyDatabase(t)
	busy := openWith(t, url, postgres.Options{Connections: 1})
	other := open(t, url)
	begun, over, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- busy.Transact(t.Context(), start, "anna", func(store.RunTx) error {
			close(begun)
			<-over
			return nil
		})
	}()
	<-begun
	defer func() {
		close(over)
		<-done // of no interest: it may have lost its turn by its silence
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := busy.Ping(ctx); err != nil {
		t.Errorf("Ping: %v", err)
	}
	drain(busy.Wake())
	accept(t, other, start)
	wantSignal(t, "Wake", busy.Wake())
}
