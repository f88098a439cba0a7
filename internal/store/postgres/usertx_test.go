package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
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

// What a node reads before a new user has a row is read again when it has locked that: another node may have
// been first.
func TestTwoNodesMeetANewUser(t *testing.T) {
	url := emptyDatabase(t)
	other := open(t, url)
	submit := func(s *ruled) store.Accepted {
		m := newMessage(start)
		accepted, err := s.Accept(t.Context(), start, []store.Submission{{DedupKey: "once", Messages: []*posthaste.Message{m}}})
		if err != nil || len(accepted) != 1 {
			t.Fatalf("Accept = %v, %v", accepted, err)
		}
		return accepted[0]
	}
	var first store.Accepted
	meet := &before{statement: "INSERT INTO posthaste.indexed", happens: sync.OnceFunc(func() { first = submit(other) })}
	s := openWith(t, url, postgres.Options{}.WithTracer(meet))
	if second := submit(s); !second.Deduplicated || second.IDs[0] != first.IDs[0] {
		t.Errorf("the second submission = %+v, want what repeats %+v", second, first)
	}
}

// before has something happen before a statement.
type before struct {
	statement string
	happens   func()
}

func (b *before) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, b.statement) {
		b.happens()
	}
	return ctx
}

func (b *before) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
