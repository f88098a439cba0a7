package postgres_test

import (
	"sync"
	"testing"

	"posthaste"
	"posthaste/internal/store"
)

// Changes of a user that wait at the same time share a transaction. One that the database
// refuses fails alone: here a message whose id there is already.
func TestAChangeThatFailsDoesNotDisturbOthers(t *testing.T) {
	const each = 20
	s := open(t, emptyDatabase(t))
	first := accept(t, s, start)
	var accepted []*posthaste.Message
	var working sync.WaitGroup
	for range each {
		m, repeated := newMessage(start), *first
		accepted = append(accepted, m)
		working.Go(func() {
			if err := acceptOne(t.Context(), s, m); err != nil {
				t.Errorf("Accept: %v", err)
			}
		})
		working.Go(func() {
			if err := acceptOne(t.Context(), s, &repeated); err == nil {
				t.Error("a message was accepted twice")
			}
		})
	}
	working.Wait()
	for _, m := range accepted {
		if _, err := s.Message(t.Context(), ann, m.ID); err != nil {
			t.Errorf("message %s: %v", m.ID, err)
		}
	}
	usage, err := s.Usage(t.Context(), ann)
	if err != nil || usage.Log.Entries != 1+each {
		t.Errorf("%d events, %v, want %d", usage.Log.Entries, err, 1+each)
	}
}

// A node that falls silent within a turn, as one does whose network is cut, loses it.
func TestATurnIsNotKeptBySilence(t *testing.T) {
	url := emptyDatabase(t)
	silent, other := open(t, url), open(t, url)
	begun, over := make(chan struct{}), make(chan struct{})
	lost := make(chan error, 1)
	go func() {
		lost <- silent.Transact(t.Context(), start, ann, func(store.RunTx) error {
			close(begun)
			<-over
			return nil
		})
	}()
	<-begun
	accept(t, other, start)
	close(over)
	if err := <-lost; err == nil {
		t.Error("a transaction was committed after it had lost its turn")
	}
}
