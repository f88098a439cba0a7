package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
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

// Changes that wait together are made in several transactions when there is no time for
// all: what one has changed is there for everybody before the next begins. Nothing is lost
// of those that have to wait, and they stay in order.
func TestChangesThatTakeLongAreCommittedInParts(t *testing.T) {
	const waiting = 5
	url := emptyDatabase(t)
	s, others := open(t, url), connect(t, url)
	s.OneChangePerCommit()
	accept(t, s, start) // the day is made
	var working sync.WaitGroup
	over := occupy(t, s, &working)
	var order []int // by the turn of ann
	for i := range waiting {
		working.Go(func() {
			err := s.Transact(t.Context(), start, ann, func(tx store.RunTx) error {
				var committed int
				err := others.QueryRow(t.Context(), `SELECT count(*) FROM posthaste.records WHERE kind = 17`).Scan(&committed)
				if committed != i {
					t.Errorf("%d changes are committed when change %d is made", committed, i)
				}
				order = append(order, i)
				tx.CacheResponse(fmt.Sprint(i), []byte("done"))
				return err
			})
			if err != nil {
				t.Errorf("change %d: %v", i, err)
			}
		})
		for s.Waiting(ann) <= i {
			runtime.Gosched()
		}
	}
	close(over)
	working.Wait()
	if want := []int{0, 1, 2, 3, 4}; !slices.Equal(order, want) {
		t.Errorf("made in the order %v, want %v", order, want)
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

// Who stands in line behind others leaves when nobody waits for the answer any more, and
// nothing takes place then.
func TestAChangeLeavesTheLineWithItsContext(t *testing.T) {
	s := open(t, emptyDatabase(t))
	accept(t, s, start) // the day is made
	var working sync.WaitGroup
	over := occupy(t, s, &working)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	took := false
	err := s.Transact(gone, start, ann, func(store.RunTx) error {
		took = true
		return nil
	})
	close(over)
	working.Wait()
	if !errors.Is(err, context.Canceled) || took {
		t.Errorf("Transact returns %v, want context.Canceled; it took place: %t", err, took)
	}
	accept(t, s, start)
}

// occupy has a change in the turn of ann, behind which others wait in line, until over is
// closed.
func occupy(t *testing.T, s *ruled, working *sync.WaitGroup) (over chan struct{}) {
	t.Helper()
	begun, over := make(chan struct{}), make(chan struct{})
	working.Go(func() {
		_ = s.Transact(t.Context(), start, ann, func(store.RunTx) error {
			close(begun)
			<-over
			return nil
		})
	})
	<-begun
	return over
}
