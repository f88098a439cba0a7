package postgres_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
	"posthaste/internal/store/postgres/node"
)

const ann = "ann"

// patience is how long a test waits for what must come: far longer than it takes.
const patience = 30 * time.Second

var start = time.Date(2026, 3, 1, 23, 55, 0, 0, time.UTC)

func TestANodeThatLeavesGivesUpItsLeases(t *testing.T) {
	url := emptyDatabase(t)
	leaves, stays := open(t, url), open(t, url)
	m := accept(t, leaves, start)
	claim := claimOne(t, leaves, m)
	wantNoClaims(t, stays)
	if err := leaves.Close(); err != nil {
		t.Fatal(err)
	}
	again := claimOne(t, stays, m)
	if _, err := stays.Settle(t.Context(), start, store.Delivered(claim)); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("Settle under the lease of the node that left = %v, want ErrLeaseLost", err)
	}
	settle(t, stays, store.Delivered(again))
}

func TestANodeThatFellSilentSettlesNothingAndRecovers(t *testing.T) {
	url := emptyDatabase(t)
	silent, other := open(t, url), ledger.New(open(t, url))
	first, asked := accept(t, silent, start), accept(t, silent, start)
	claims, _, err := silent.Claim(t.Context(), start, 10)
	if err != nil || len(claims) != 2 {
		t.Fatalf("Claim = %d claims, %v, want 2", len(claims), err)
	}
	if _, err := other.Cancel(t.Context(), start, ann, []posthaste.MessageID{asked.ID}, nil); err != nil {
		t.Fatal(err)
	}
	// Both count as dead now. The other says that it lives before it asks for work.
	execute(t, url, `UPDATE posthaste.nodes SET expires_at = '-infinity'`)
	if err := other.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := claimOne(t, other, first)
	for _, claim := range claims {
		if _, err := silent.Settle(t.Context(), start, store.Delivered(claim)); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("late settlement of %s = %v, want ErrLeaseLost", claim.Message.ID, err)
		}
	}
	if status, err := other.Message(t.Context(), ann, asked.ID); err != nil || status.State != posthaste.StateCancelled {
		t.Errorf("the message that was to be cancelled is %s, %v", status.State, err)
	}
	settle(t, other, store.Delivered(again))
	if err := silent.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := accept(t, other, start)
	settle(t, silent, store.Delivered(claimOne(t, silent, next)))
}

// A node that has nothing to do notices that another one has died, and looks for work then.
func TestADeadNodeIsNoticed(t *testing.T) {
	url := emptyDatabase(t)
	short := postgres.Options{Lease: node.ShortestLease}
	silent, other := openWith(t, url, short), openWith(t, url, short)
	m := accept(t, silent, start)
	claimOne(t, silent, m)
	drain(other.Wake())
	if n := queryOne[int](t, url, `SELECT count(*) FROM posthaste.nodes WHERE lease = '3 s' AND expires_at <= clock_timestamp() + lease`); n != 2 {
		t.Errorf("%d nodes have the lease that they were given, want 2", n)
	}
	execute(t, url, `UPDATE posthaste.nodes SET expires_at = '-infinity' WHERE node = (SELECT node FROM posthaste.live WHERE node <> 0)`)
	wantSignal(t, "a dead node", other.Wake())
	claimOne(t, other, m)
}

func TestWhatOneNodeCommitsWakesAnother(t *testing.T) {
	url := emptyDatabase(t)
	here, there := open(t, url), open(t, url)
	drain(here.Wake())
	_, grown, err := here.Watch(t.Context(), ann)
	if err != nil {
		t.Fatal(err)
	}
	m := accept(t, there, start)
	wantSignal(t, "Watch", grown)
	wantSignal(t, "Wake", here.Wake())
	claimOne(t, here, m)
}

// Nodes whose clocks differ accept at once, while a reader follows: it sees all, in
// order, and each once.
func TestPositionsHoldAcrossNodes(t *testing.T) {
	const nodes, each = 3, 20
	url := emptyDatabase(t)
	var working sync.WaitGroup
	for n := range nodes {
		s, now := open(t, url), start.Add(time.Duration(n-1)*3*time.Second)
		working.Go(func() {
			for range each {
				if err := acceptOne(t.Context(), s, newMessage(now)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	seen := follow(t, open(t, url), nodes*each)
	working.Wait()
	if !slices.IsSorted(seen) || len(slices.Compact(seen)) != nodes*each {
		t.Errorf("the reader saw %d events, want %d in order and each once", len(seen), nodes*each)
	}
}

// follow reads the log of ann as it grows until it has n events.
func follow(t *testing.T, s store.Store, n int) (seen []posthaste.Position) {
	t.Helper()
	query := store.EventQuery{OldestFirst: true, Limit: 10}
	for len(seen) < n && !t.Failed() {
		end, grown, err := s.Watch(t.Context(), ann)
		if err != nil {
			t.Fatal(err)
		}
		query.High = end
		page, err := store.ReadEvents(t.Context(), s, ann, query)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			seen = append(seen, e.Position)
			query.Low = e.Position + 1
		}
		if len(page.Entries) == 0 && len(seen) < n {
			wantSignal(t, "Watch", grown)
		}
	}
	return seen
}

func TestQueueIsInOrderAcrossNodes(t *testing.T) {
	url := emptyDatabase(t)
	nodes := []*ruled{open(t, url), open(t, url), open(t, url)}
	var messages []*posthaste.Message
	for i := range 12 {
		m := newMessage(start)
		m.Queue = "q"
		if err := acceptOne(t.Context(), nodes[i%len(nodes)], m); err != nil {
			t.Fatal(err)
		}
		messages = append(messages, m)
	}
	for i, m := range messages {
		claim := claimOne(t, nodes[(i+1)%len(nodes)], m)
		for _, s := range nodes {
			wantNoClaims(t, s)
		}
		settle(t, nodes[i%len(nodes)], store.Delivered(claim))
	}
}

func TestLimitsHoldAcrossNodes(t *testing.T) {
	const parallelism, messages = 3, 30
	url := emptyDatabase(t)
	nodes := []*ruled{open(t, url), open(t, url)}
	for range messages {
		m := newMessage(start)
		m.FlowControl = posthaste.FlowControl{Key: "k", FlowLimit: posthaste.FlowLimit{Parallelism: parallelism}}
		if err := acceptOne(t.Context(), nodes[0], m); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	inFlight, delivered := 0, 0
	var working sync.WaitGroup
	for _, s := range nodes {
		working.Go(func() {
			for t.Context().Err() == nil && !t.Failed() {
				claims, _, err := s.Claim(t.Context(), start, 10)
				mu.Lock()
				inFlight += len(claims)
				if err != nil || inFlight > parallelism {
					t.Errorf("%d attempts in flight, %v, want %d at most", inFlight, err, parallelism)
				}
				done := delivered == messages
				mu.Unlock()
				if done {
					return
				}
				for _, claim := range claims {
					mu.Lock() // counted before others can take the place
					_, err := s.Settle(t.Context(), start, store.Delivered(claim))
					inFlight, delivered = inFlight-1, delivered+1
					mu.Unlock()
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	working.Wait()
}

// A node whose clock is behind takes part in the window that another one began, and not
// in one of its own.
func TestRatesHoldAcrossClocks(t *testing.T) {
	const rate = 2
	url := emptyDatabase(t)
	right, behind := open(t, url), open(t, url)
	for range 3 * rate {
		m := newMessage(start.Add(-time.Minute))
		m.FlowControl = posthaste.FlowControl{Key: "k", FlowLimit: posthaste.FlowLimit{Rate: rate, Period: time.Second}}
		if err := acceptOne(t.Context(), right, m); err != nil {
			t.Fatal(err)
		}
	}
	steps := []struct {
		name string
		node *ruled
		at   time.Duration
		want int
	}{
		{"the window is filled", right, 0, rate},
		{"it is full for a clock 3 seconds behind", behind, -3 * time.Second, 0},
		{"and until it ends", right, 999 * time.Millisecond, 0},
		{"the next one is filled", right, time.Second, rate},
		{"and is full for the clock behind", behind, -2 * time.Second, 0},
	}
	for _, step := range steps {
		claims, _, err := step.node.Claim(t.Context(), start.Add(step.at), 1000)
		if err != nil || len(claims) != step.want {
			t.Fatalf("%s: %d claims, %v; want %d", step.name, len(claims), err, step.want)
		}
	}
}

func TestDatabaseRestart(t *testing.T) {
	cluster.NeedOwn(t)
	url := emptyDatabase(t)
	s := open(t, url)
	m := accept(t, s, start)
	if err := cluster.Halt(); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); err == nil {
		t.Error("Ping finds a database that is not there")
	}
	if err := acceptOne(t.Context(), s, newMessage(start)); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Accept = %v, want ErrUnavailable", err)
	}
	if _, err := postgres.Open(t.Context(), url, postgres.Options{}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Open = %v, want ErrUnavailable", err)
	}
	if err := cluster.Launch(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); s.Ping(t.Context()) != nil; {
		if time.Now().After(deadline) {
			t.Fatal("the store does not come back")
		}
	}
	settle(t, s, store.Delivered(claimOne(t, s, m)))
}

func newMessage(now time.Time) *posthaste.Message {
	id, err := posthaste.NewMessageID(now, entropy{})
	if err != nil {
		panic(err) // this entropy does not end
	}
	return &posthaste.Message{ID: id, User: ann, URL: "http://" + id.String() + ".example/", CreatedAt: now, NotBefore: now}
}

// entropy are random bytes without end.
type entropy struct{}

func (entropy) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(rand.Uint32())
	}
	return len(p), nil
}

func acceptOne(ctx context.Context, s store.Store, m *posthaste.Message) error {
	_, err := s.Accept(ctx, m.CreatedAt, []store.Submission{{Messages: []*posthaste.Message{m}}})
	return err
}

func accept(t *testing.T, s store.Store, now time.Time) *posthaste.Message {
	t.Helper()
	m := newMessage(now)
	if err := acceptOne(t.Context(), s, m); err != nil {
		t.Fatal(err)
	}
	return m
}

func claimOne(t *testing.T, s store.Store, m *posthaste.Message) store.Claim {
	t.Helper()
	claims, _, err := s.Claim(t.Context(), start, 10)
	if err != nil || len(claims) != 1 || claims[0].Message.ID != m.ID {
		t.Fatalf("Claim = %v, %v, want %s alone", claims, err, m.ID)
	}
	return claims[0]
}

func wantNoClaims(t *testing.T, s store.Store) {
	t.Helper()
	if claims, _, err := s.Claim(t.Context(), start, 10); err != nil || len(claims) > 0 {
		t.Fatalf("Claim = %v, %v, want nothing", claims, err)
	}
}

func settle(t *testing.T, s store.Store, settlement store.Settlement) {
	t.Helper()
	if _, err := s.Settle(t.Context(), start, settlement); err != nil {
		t.Fatal(err)
	}
}

func execute(t *testing.T, url, sql string, args ...any) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func drain(signals <-chan struct{}) {
	select {
	case <-signals:
	default:
	}
}

func wantSignal(t *testing.T, what string, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(patience):
		t.Fatalf("%s: no signal", what)
	}
}
