package postgres_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
	"posthaste/internal/store/record"
)

// What an operation costs is counted, for nobody notices one more round trip in a test.
func TestRoundTrips(t *testing.T) {
	counted := &counter{}
	s := openWith(t, emptyDatabase(t), postgres.Options{}.WithPatience(claimPatience).WithTracer(counted))
	queue := record.AppendQueue(nil, &posthaste.Queue{Parallelism: 100})
	key := record.AppendFlowKey(nil, &posthaste.FlowKey{FlowLimit: posthaste.FlowLimit{Parallelism: 100}})
	for i := range 4 {
		m := newMessage(start)
		if i >= 2 {
			m.Queue, m.FlowControl.Key = "q", "k"
		}
		update(t, s, store.Hint{}, func(tx store.Tx) error {
			tx.Put(store.ItemQueue, []byte("q"), queue, store.Found{}, store.Found{})
			tx.Put(store.ItemFlowKey, []byte("k"), key, store.Found{}, store.Found{})
			acceptIn(tx, m)
			return nil
		})
	}
	claims, _, err := s.Claim(t.Context(), start, 100)
	if err != nil || len(claims) != 4 {
		t.Fatalf("Claim = %d claims, %v, want 4", len(claims), err)
	}
	slices.SortFunc(claims, func(a, b store.Claim) int { return cmp.Compare(a.Message.Queue, b.Message.Queue) })
	limits := store.Hint{Records: []store.RecordKey{{Kind: store.ItemQueue, Key: []byte("q")}, {Kind: store.ItemFlowKey, Key: []byte("k")}}}
	settle := func(claim store.Claim) func() {
		m := claim.Message
		return func() {
			update(t, s, store.Hint{Places: []posthaste.MessageID{m.ID}}, func(tx store.Tx) error {
				place, err := tx.Place(m.ID)
				if err != nil || place.Lease != claim.Lease {
					t.Errorf("Place = %+v, %v, want the lease %d", place, err, claim.Lease)
				}
				tx.Log(m, posthaste.Event{MessageID: m.ID, State: posthaste.StateDelivered})
				place.State, place.Lease = posthaste.StateDelivered, 0
				tx.End(m, place)
				return err
			})
		}
	}
	all := store.Term{Field: 'a', Hash: 1}
	found := func(n int) store.Found { return store.Found{Terms: []store.Term{{Field: 'n', Hash: uint64(n)}, all}} }
	update(t, s, store.Hint{}, func(tx store.Tx) error {
		tx.Put(store.ItemDeadLetter, positionKey(tx.NextPosition()), []byte("value"), store.Found{}, found(1))
		return nil
	})
	for name, test := range map[string]struct {
		statements, roundTrips int
		operation              func(n int)
	}{
		"accept": {12, 2, func(int) {
			update(t, s, store.Hint{}, func(tx store.Tx) error {
				acceptIn(tx, newMessage(start))
				return nil
			})
		}},
		"accept in a queue, under a key": {13, 2, func(int) {
			m := newMessage(start)
			m.Queue, m.FlowControl.Key = "q", "k"
			update(t, s, limits, func(tx store.Tx) error {
				for _, r := range limits.Records {
					if _, err := tx.Get(r.Kind, r.Key); err != nil {
						return err
					}
				}
				acceptIn(tx, m)
				return nil
			})
		}},
		"settle":                         {14, 2, func(n int) { settle(claims[n])() }},
		"settle in a queue, under a key": {15, 2, func(n int) { settle(claims[2+n])() }},
		"put a record": {6, 2, func(int) {
			update(t, s, store.Hint{}, func(tx store.Tx) error {
				tx.Put(store.ItemURLGroup, []byte("g"), []byte("value"), store.Found{}, store.Found{})
				return nil
			})
		}},
		"change a record": {7, 2, func(int) {
			hint := store.Hint{Records: []store.RecordKey{{Kind: store.ItemURLGroup, Key: []byte("g")}}}
			update(t, s, hint, func(tx store.Tx) error {
				_, err := tx.Get(store.ItemURLGroup, []byte("g"))
				tx.Put(store.ItemURLGroup, []byte("g"), []byte("value"), store.Found{}, store.Found{})
				return ignoreNotFound(err)
			})
		}},
		"put what is found by terms": {8, 2, func(n int) {
			update(t, s, store.Hint{}, func(tx store.Tx) error {
				tx.Put(store.ItemDeadLetter, positionKey(tx.NextPosition()), []byte("value"), store.Found{}, found(2+n))
				return nil
			})
		}},
		"read a message and its place": {3, 1, func(int) {
			id := claims[0].Message.ID
			view(t, s, store.Hint{Places: []posthaste.MessageID{id}, Messages: []posthaste.MessageID{id}}, func(r store.Reader) error {
				_, err := r.Place(id)
				if err == nil {
					_, err = r.Message(id)
				}
				return err
			})
		}},
		"list records": {1, 1, func(int) {
			view(t, s, store.Hint{}, func(r store.Reader) error {
				_, err := r.Scan(store.ItemQueue, nil, nil, 10, func(_, _ []byte) error { return nil })
				return err
			})
		}},
		"find a page": {2, 2, func(int) {
			view(t, s, store.Hint{}, func(r store.Reader) error {
				query := store.FindQuery{Kind: store.ItemDeadLetter, Terms: [][]store.Term{{all}}, High: posthaste.MaxPosition, Limit: 10}
				_, _, err := r.Find(query, func(posthaste.Position, []byte) (bool, error) { return false, nil })
				return err
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			test.operation(0) // its statements are prepared
			counted.reset()
			test.operation(1)
			if statements, roundTrips := counted.totals(); len(statements) != test.statements || roundTrips != test.roundTrips {
				t.Errorf("%d statements in %d round trips, want %d in %d:\n%s", len(statements), roundTrips, test.statements, test.roundTrips, strings.Join(statements, "\n"))
			}
		})
	}
}

func ignoreNotFound(err error) error {
	if err == store.ErrNotFound {
		return nil
	}
	return err
}

func positionKey(at posthaste.Position) []byte { return binary.BigEndian.AppendUint64(nil, uint64(at)) }

// acceptIn accepts a message, and logs it.
func acceptIn(tx store.Tx, m *posthaste.Message) {
	order := max(tx.Log(m, store.Created(m)), posthaste.FirstPosition(m.NotBefore))
	tx.Accept(m, store.Place{State: posthaste.StateCreated, Order: order, DueAt: m.NotBefore})
}

func update(t *testing.T, s *ruled, hint store.Hint, change func(store.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), start, store.Scope{User: ann, Hint: hint}, change); err != nil {
		t.Fatalf("Update: %v", err)
	}
}

func view(t *testing.T, s *ruled, hint store.Hint, read func(store.Reader) error) {
	t.Helper()
	if err := s.View(t.Context(), store.Scope{User: ann, Hint: hint}, read); err != nil {
		t.Fatalf("View: %v", err)
	}
}

// counter counts statements and round trips.
type counter struct {
	mu         sync.Mutex
	statements []string
	roundTrips int
}

func (c *counter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statements, c.roundTrips = nil, 0
}

func (c *counter) totals() (statements []string, roundTrips int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.statements, c.roundTrips
}

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statements, c.roundTrips = append(c.statements, shortened(data.SQL)), c.roundTrips+1
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range data.Batch.QueuedQueries {
		c.statements = append(c.statements, shortened(q.SQL))
	}
	c.roundTrips++
	return ctx
}

func (c *counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (c *counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// shortened is the beginning of a statement.
func shortened(sql string) string {
	words := strings.Fields(sql)
	return strings.Join(words[:min(len(words), 8)], " ")
}
