package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
)

// messageOfUser is a message of one of many users.
func messageOfUser(user int) *posthaste.Message {
	m := newMessage(start)
	m.User = fmt.Sprint("user", user)
	return m
}

// Changes of several users that wait at the same time share transactions.
func TestChangesOfUsersShareTransactions(t *testing.T) {
	const users = 40
	held := &holding{waits: make(chan struct{})}
	s := openWith(t, emptyDatabase(t), postgres.Options{}.WithTracer(held))
	for user := range users { // their rows are there
		if err := acceptOne(t.Context(), s, messageOfUser(user)); err != nil {
			t.Fatal(err)
		}
	}
	held.on.Store(true)
	before := held.begun.Load()
	var working sync.WaitGroup
	for user := range users {
		working.Go(func() {
			if err := acceptOne(t.Context(), s, messageOfUser(user)); err != nil {
				t.Errorf("Accept: %v", err)
			}
		})
	}
	time.Sleep(50 * time.Millisecond) // they wait
	close(held.waits)
	working.Wait()
	if made := held.begun.Load() - before; made > users/2 {
		t.Errorf("%d users' changes took %d transactions", users, made)
	}
	for user := range users {
		if usage, err := s.Usage(t.Context(), fmt.Sprint("user", user)); err != nil || usage.Log.Entries != 2 {
			t.Errorf("user %d has %d events, %v, want 2", user, usage.Log.Entries, err)
		}
	}
}

// A change that the database refuses fails alone, and so does that of a user whose row stays locked: others,
// with which they would have shared a transaction, are made.
func TestAChangeThatFailsDoesNotDisturbOtherUsers(t *testing.T) {
	const users, each, locked = 10, 20, 3
	url := emptyDatabase(t)
	s := open(t, url)
	first := messageOfUser(0)
	for user := range users {
		m := messageOfUser(user)
		if user == 0 {
			m = first
		}
		if err := acceptOne(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), `SELECT FROM posthaste.users WHERE user_id = $1 FOR UPDATE`, fmt.Sprint("user", locked)); err != nil {
		t.Fatal(err)
	}
	var free, blocked sync.WaitGroup
	for range each {
		for user := range users {
			working := &free
			if user == locked {
				working = &blocked
			}
			working.Go(func() {
				if err := acceptOne(t.Context(), s, messageOfUser(user)); err != nil {
					t.Errorf("Accept for user %d: %v", user, err)
				}
			})
		}
		free.Go(func() {
			repeated := *first
			if err := acceptOne(t.Context(), s, &repeated); err == nil {
				t.Error("a message was accepted twice")
			}
		})
	}
	free.Wait()
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	blocked.Wait()
	for user := range users {
		if usage, err := s.Usage(t.Context(), fmt.Sprint("user", user)); err != nil || usage.Log.Entries != 1+each {
			t.Errorf("user %d has %d events, %v, want %d", user, usage.Log.Entries, err, 1+each)
		}
	}
}

// Changes that are withdrawn leave nothing behind that others would wait for.
func TestChangesThatAreWithdrawn(t *testing.T) {
	const users = 20
	held := &holding{waits: make(chan struct{})}
	s := openWith(t, emptyDatabase(t), postgres.Options{}.WithTracer(held))
	for user := range users {
		if err := acceptOne(t.Context(), s, messageOfUser(user)); err != nil {
			t.Fatal(err)
		}
	}
	held.on.Store(true)
	var working sync.WaitGroup
	for user := range users {
		working.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+user%3)*10*time.Millisecond)
			defer cancel()
			_ = acceptOne(ctx, s, messageOfUser(user))
		})
	}
	time.Sleep(50 * time.Millisecond)
	close(held.waits)
	working.Wait()
	for user := range users {
		if err := acceptOne(t.Context(), s, messageOfUser(user)); err != nil {
			t.Errorf("Accept for user %d afterwards: %v", user, err)
		}
	}
}

// holding counts transactions, and holds those back that begin while it is on.
type holding struct {
	on    atomic.Bool
	waits chan struct{}
	begun atomic.Int64
}

func (h *holding) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (h *holding) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (h *holding) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if len(data.Batch.QueuedQueries) > 0 && strings.HasPrefix(data.Batch.QueuedQueries[0].SQL, "BEGIN") {
		h.begun.Add(1)
		if h.on.Load() {
			<-h.waits
		}
	}
	return ctx
}

func (h *holding) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (h *holding) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// A row that cannot be read fails the change that needs it, and none of other users.
func TestADamagedRowDoesNotDisturbOtherUsers(t *testing.T) {
	const users = 20
	held := &holding{waits: make(chan struct{})}
	url := emptyDatabase(t)
	s := openWith(t, url, postgres.Options{}.WithTracer(held))
	for user := range users {
		if err := acceptOne(t.Context(), s, messageOfUser(user)); err != nil {
			t.Fatal(err)
		}
	}
	claims, _, err := s.Claim(t.Context(), start, 100)
	if err != nil || len(claims) != users {
		t.Fatalf("Claim = %d claims, %v, want %d", len(claims), err, users)
	}
	execute(t, url, `UPDATE posthaste.live SET state = 99 WHERE user_id = 'user0'`)
	held.on.Store(true)
	var working sync.WaitGroup
	for _, claim := range claims {
		working.Go(func() {
			_, err := s.Settle(t.Context(), start, store.Delivered(claim))
			if damaged := claim.Message.User == "user0"; damaged != (err != nil) {
				t.Errorf("Settle for %s = %v", claim.Message.User, err)
			}
		})
	}
	time.Sleep(50 * time.Millisecond) // they wait
	close(held.waits)
	working.Wait()
	execute(t, url, `UPDATE posthaste.live SET state = 0 WHERE user_id = 'user0'`)
}

// A slot that is free is noticed, also if its attempt ended before Claim saw that others wait for it, by the
// clock of its caller.
func TestAFreeSlotInALaneAtItsCeiling(t *testing.T) {
	const slots = 8 // of which a lane may have one
	s := open(t, emptyDatabase(t))
	first, second := newMessage(start), newMessage(start)
	second.URL = first.URL
	for _, m := range []*posthaste.Message{first, second} {
		if err := acceptOne(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
	}
	later := start.Add(3 * time.Millisecond)
	claims, _, err := s.Claim(t.Context(), later, slots)
	if err != nil || len(claims) != 1 {
		t.Fatalf("Claim = %v, %v, want one", claims, err)
	}
	settle(t, s, store.Delivered(claims[0]))
	claims, _, err = s.Claim(t.Context(), later, slots)
	if err != nil || len(claims) != 1 {
		t.Errorf("Claim = %v, %v, want the other message", claims, err)
	}
}
