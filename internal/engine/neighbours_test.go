package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/flow"
)

// neighbourhood is a Dispatcher with one healthy destination among others. It measures
// how many attempts of the others are in flight at once.
type neighbourhood struct {
	others func(ctx context.Context) posthaste.Outcome

	mu             sync.Mutex
	inFlight, most int
	healthy        []time.Time // when attempts to the healthy one began
	delivered      int         // of the others
}

const healthyURL = "http://healthy.example/"

func (n *neighbourhood) Attempt(ctx context.Context, m *posthaste.Message, _ int) posthaste.Outcome {
	if m.URL == healthyURL {
		n.mu.Lock()
		n.healthy = append(n.healthy, time.Now())
		n.mu.Unlock()
		return ok
	}
	n.enter()
	outcome := n.others(ctx)
	n.leave(outcome)
	return outcome
}

func (n *neighbourhood) enter() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inFlight++
	n.most = max(n.most, n.inFlight)
}

func (n *neighbourhood) leave(outcome posthaste.Outcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inFlight--
	if outcome.Class == posthaste.OutcomeDelivered {
		n.delivered++
	}
}

// check publishes to the healthy destination again and again, and fails unless each
// message is attempted in the millisecond in which it is published.
func (n *neighbourhood) check(w *world, times int, every time.Duration) {
	w.t.Helper()
	for range times {
		n.healthy = nil
		published := time.Now()
		w.publish(engine.Publication{Destination: healthyURL})
		w.pass(every)
		if len(n.healthy) != 1 || n.healthy[0].Sub(published) > time.Millisecond {
			w.t.Fatalf("published at %v, attempted at %v", published.Sub(w.start), n.healthy)
		}
	}
}

// publishMany publishes messages to so many hosts, in turn.
func (w *world) publishMany(messages, hosts int, settings posthaste.Settings) {
	w.t.Helper()
	publications := make([]engine.Publication, messages)
	for i := range publications {
		publications[i] = engine.Publication{Destination: fmt.Sprintf("http://host%d.example/x", i%hosts), Settings: settings}
	}
	results, err := w.PublishBatch(w.t.Context(), user, publications)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, result := range results {
		w.ids = append(w.ids, result.Receipts[0].MessageID)
	}
}

// TestBadNeighbours has a thousand destinations that are bad, each in the same way, and
// one that is not.
func TestBadNeighbours(t *testing.T) {
	after := func(d time.Duration, outcome posthaste.Outcome) func(context.Context) posthaste.Outcome {
		return func(ctx context.Context) posthaste.Outcome {
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
			return outcome
		}
	}
	timedOut := posthaste.Outcome{Error: "no response within 2h", TimedOut: true}
	tests := map[string]func(context.Context) posthaste.Outcome{
		"dead":      after(10*time.Second, posthaste.Outcome{Error: "connecting took too long"}),
		"refusing":  after(time.Nanosecond, posthaste.Outcome{Error: "connection refused"}), // see untilNext
		"hanging":   after(2*time.Hour, timedOut),
		"dripping":  after(time.Minute, ok),
		"failing":   after(500*time.Millisecond, broken),
		"rejecting": after(time.Millisecond, refusing),
	}
	for name, others := range tests {
		if testing.Short() && name != "hanging" {
			continue // the same things happen at the same time
		}
		t.Run(name, func(t *testing.T) {
			n := &neighbourhood{others: others}
			inWorld(t, n, engine.Options{}, func(w *world) {
				w.publishMany(1000, 1000, retries(3))
				n.check(w, 20, 100*time.Millisecond)
				if n.most == 0 {
					t.Error("the others were never attempted")
				}
			})
		})
	}
}

// TestDestinationThatComesBack has one that is down for an hour while messages for it
// gather. When it is back it is not run over: no more of them are in flight at once than
// its share, and who else is there does not notice.
func TestDestinationThatComesBack(t *testing.T) {
	sequential(t)
	const messages, concurrency, outage = 600, 80, time.Hour
	var start time.Time
	n := &neighbourhood{others: func(context.Context) posthaste.Outcome {
		if time.Since(start) < outage {
			return posthaste.Outcome{Error: "connection refused"}
		}
		time.Sleep(100 * time.Millisecond)
		return ok
	}}
	inWorld(t, n, engine.Options{Concurrency: concurrency}, func(w *world) {
		start = w.start
		w.publishMany(messages, 1, retries(5))
		w.pass(outage)
		n.mu.Lock()
		n.most = 0
		n.mu.Unlock()
		const nextAttempt = 22026*time.Second + 1808*time.Second + 148*time.Second + 12*time.Second // since the publication, to the minute
		w.pass(nextAttempt - outage - time.Minute)
		n.check(w, 2*60*4, 250*time.Millisecond)
		if n.delivered != messages {
			t.Errorf("%d of %d were delivered", n.delivered, messages)
		}
		if share := flow.Ceiling(concurrency); n.most == 0 || n.most > share {
			t.Errorf("%d were in flight at once, its share is %d", n.most, share)
		}
	})
}
