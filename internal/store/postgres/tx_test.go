package postgres_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
)

// What an operation costs is counted, for nobody notices one more round trip in a test.
func TestRoundTrips(t *testing.T) {
	counted := &counter{}
	s := openWith(t, emptyDatabase(t), postgres.Options{}.WithPatience(claimPatience).WithTracer(counted))
	message := func(queue, key string) *posthaste.Message {
		m := newMessage(start)
		m.Queue, m.FlowControl.Key = queue, key
		return m
	}
	publish := func(dedupKey string, m *posthaste.Message) {
		_, err := s.Accept(t.Context(), start, []store.Submission{{DedupKey: dedupKey, Messages: []*posthaste.Message{m}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := s.UpdateQueue(t.Context(), start, ann, "q", func(q *posthaste.Queue) error {
		q.Parallelism = 100
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		publish("", message("", ""))
	}
	for range 2 {
		publish("", message("q", "k"))
	}
	claims, _, err := s.Claim(t.Context(), start, 200)
	if err != nil || len(claims) != 8 {
		t.Fatalf("Claim = %d claims, %v, want 8", len(claims), err)
	}
	slices.SortFunc(claims, func(a, b store.Claim) int { return cmp.Compare(a.Message.Queue, b.Message.Queue) })
	broken := posthaste.Outcome{Error: "broken"}
	all := store.Term{Field: 'a', Hash: 1}
	for name, test := range map[string]struct {
		statements, roundTrips int
		operation              func(n int)
	}{
		"accept":                         {7, 2, func(int) { publish("", message("", "")) }},
		"accept in a queue, under a key": {8, 2, func(int) { publish("", message("q", "k")) }},
		"accept once":                    {9, 2, func(n int) { publish(fmt.Sprint(n), message("", "")) }},
		"settle":                         {8, 2, func(n int) { settle(t, s, store.Delivered(claims[n])) }},
		"settle with a retry":            {7, 2, func(n int) { settle(t, s, store.RetryAt(claims[2+n], start.Add(time.Hour), broken)) }},
		"settle a failure":               {11, 2, func(n int) { settle(t, s, store.Failed(claims[4+n], broken)) }},
		"settle in a queue, under a key": {9, 2, func(n int) { settle(t, s, store.Delivered(claims[6+n])) }},
		"read a message": {3, 1, func(int) {
			if _, err := s.Message(t.Context(), ann, claims[0].Message.ID); err != nil {
				t.Error(err)
			}
		}},
		"put a record": {5, 2, func(int) {
			update(t, s, store.Hint{}, func(tx store.Tx) error {
				tx.Put(store.ItemURLGroup, []byte("g"), []byte("value"), store.Found{}, store.Found{})
				return nil
			})
		}},
		"change a record": {6, 2, func(int) {
			hint := store.Hint{Records: []store.RecordKey{{Kind: store.ItemURLGroup, Key: []byte("g")}}}
			update(t, s, hint, func(tx store.Tx) error {
				_, err := tx.Get(store.ItemURLGroup, []byte("g"))
				tx.Put(store.ItemURLGroup, []byte("g"), []byte("value"), store.Found{}, store.Found{})
				return ignoreNotFound(err)
			})
		}},
		"put what is found by terms": {7, 2, func(n int) {
			update(t, s, store.Hint{}, func(tx store.Tx) error {
				tx.Put(store.ItemDeadLetter, positionKey(tx.NextPosition(0)), []byte("value"), store.Found{},
					store.Found{Terms: []store.Term{all, {Field: 'n', Hash: uint64(n)}}})
				return nil
			})
		}},
		"list records": {1, 1, func(int) {
			view(t, s, store.Hint{}, func(r store.Reader) error {
				_, err := r.Scan(store.ItemQueue, nil, nil, 10, func(_, _ []byte) error { return nil })
				return err
			})
		}},
		"find a page": {2, 2, func(int) {
			update(t, s, store.Hint{}, func(tx store.Tx) error {
				tx.Put(store.ItemRun, positionKey(1), []byte("value"), store.Found{}, store.Found{Terms: []store.Term{all}})
				return nil
			})
			counted.reset()
			view(t, s, store.Hint{}, func(r store.Reader) error {
				query := store.FindQuery{Kind: store.ItemRun, Terms: [][]store.Term{{all}}, High: posthaste.MaxPosition, Limit: 10}
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
