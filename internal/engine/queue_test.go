package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/engine"
)

// recorder is a Dispatcher that notes what it delivers, and how many attempts of
// the same group are in flight at once.
type recorder struct {
	takes   time.Duration
	outcome func(m *posthaste.Message, retried int) posthaste.Outcome // nil: delivered

	mu        sync.Mutex
	inFlight  int
	most      int
	startedAt []time.Time
	delivered []string // bodies, in the order of delivery
}

func (r *recorder) Attempt(_ context.Context, m *posthaste.Message, retried int) posthaste.Outcome {
	r.mu.Lock()
	r.inFlight++
	r.most = max(r.most, r.inFlight)
	r.startedAt = append(r.startedAt, time.Now())
	r.mu.Unlock()
	time.Sleep(r.takes)
	outcome := ok
	if r.outcome != nil {
		outcome = r.outcome(m, retried)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight--
	if outcome.Class == posthaste.OutcomeDelivered {
		r.delivered = append(r.delivered, string(m.Body))
	}
	return outcome
}

func (r *recorder) wantOrder(t *testing.T, n int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprint(i)
	}
	if !slices.Equal(r.delivered, want) {
		t.Errorf("delivered %v, want 0 to %d in order", r.delivered, n-1)
	}
}

// enqueue publishes n messages with their numbers as bodies, a millisecond apart.
func (w *world) enqueue(queue string, n int, settings posthaste.Settings) {
	for i := range n {
		w.publish(engine.Publication{Queue: queue, Body: fmt.Append(nil, i), Settings: settings})
		time.Sleep(time.Millisecond)
	}
}

// Contract, messages 6.1.
func TestQueueKeepsOrderThroughRetries(t *testing.T) {
	r := &recorder{takes: 20 * time.Millisecond, outcome: func(m *posthaste.Message, retried int) posthaste.Outcome {
		if strings.HasSuffix(string(m.Body), "3") && retried == 0 {
			return broken
		}
		return ok
	}}
	inWorld(t, r, engine.Options{}, func(w *world) {
		w.enqueue("q", 40, posthaste.Settings{})
		w.pass(time.Hour)
		r.wantOrder(t, 40)
		if r.most != 1 {
			t.Errorf("%d attempts at once, want 1", r.most)
		}
	})
}

func TestQueueParallelismIsNeverExceeded(t *testing.T) {
	r := &recorder{takes: 20 * time.Millisecond, outcome: func(m *posthaste.Message, retried int) posthaste.Outcome {
		if strings.HasSuffix(string(m.Body), "3") && retried == 0 {
			return broken
		}
		return ok
	}}
	inWorld(t, r, engine.Options{}, func(w *world) {
		if err := w.PutQueue(w.t.Context(), user, "q", engine.QueueChange{Parallelism: 8}); err != nil {
			t.Fatal(err)
		}
		w.enqueue("q", 100, posthaste.Settings{})
		w.pass(time.Hour)
		if len(r.delivered) != 100 || r.most != 8 {
			t.Errorf("%d delivered, %d attempts at once; want 100 and 8", len(r.delivered), r.most)
		}
	})
}

func TestQueueGoesOnAfterAFailure(t *testing.T) {
	r := &recorder{outcome: func(m *posthaste.Message, _ int) posthaste.Outcome {
		if string(m.Body) == "0" {
			return broken
		}
		return ok
	}}
	inWorld(t, r, engine.Options{}, func(w *world) {
		w.enqueue("q", 3, retries(1))
		w.pass(time.Hour)
		if want := []string{"1", "2"}; !slices.Equal(r.delivered, want) {
			t.Errorf("delivered %v, want %v", r.delivered, want)
		}
	})
}

func TestQueueWaitsForCallbacks(t *testing.T) {
	r := &recorder{outcome: func(m *posthaste.Message, retried int) posthaste.Outcome {
		if !m.SourceID.IsZero() && retried == 0 {
			return broken
		}
		return ok
	}}
	inWorld(t, r, engine.Options{}, func(w *world) {
		settings := posthaste.Settings{Callback: &posthaste.Callback{URL: "http://back.example/"}}
		first := w.publish(engine.Publication{Queue: "q", Settings: settings})
		second := w.publish(engine.Publication{Queue: "q"})
		w.pass(time.Second)
		w.wantLog(first, "0s CREATED", "0s ACTIVE", "0s DELIVERED")
		w.wantLog(second, "0s CREATED")
		w.pass(time.Minute)
		w.wantLog(second, "0s CREATED", "12.182s ACTIVE", "12.182s DELIVERED")
	})
}

func TestQueuePause(t *testing.T) {
	r := &recorder{}
	inWorld(t, r, engine.Options{}, func(w *world) {
		paused := true
		if err := w.PutQueue(w.t.Context(), user, "q", engine.QueueChange{Paused: &paused}); err != nil {
			t.Fatal(err)
		}
		w.enqueue("q", 5, posthaste.Settings{})
		w.pass(time.Hour)
		q, err := w.Queue(w.t.Context(), user, "q")
		if err != nil || q.Lag != 5 || len(r.delivered) != 0 {
			t.Fatalf("lag %d, %v, delivered %v; want 5 and none", q.Lag, err, r.delivered)
		}
		if err := w.PauseQueue(w.t.Context(), user, "q", false); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		r.wantOrder(t, 5)
	})
}

// Contract, U-29.
func TestDeleteQueueCancelsWhatWaits(t *testing.T) {
	r := &recorder{takes: time.Second}
	inWorld(t, r, engine.Options{}, func(w *world) {
		w.enqueue("q", 3, posthaste.Settings{})
		w.pass(100 * time.Millisecond)
		if err := w.DeleteQueue(w.t.Context(), user, "q"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		r.wantOrder(t, 1)
		if all, err := w.Queues(w.t.Context(), user, ""); err != nil || len(all.Items) != 0 {
			t.Errorf("queues %v, %v; want none", all, err)
		}
		for _, id := range w.ids[1:] {
			if status, _ := w.Message(w.t.Context(), user, id); status.State != posthaste.StateCancelled {
				t.Errorf("message %s is %s, want CANCELLED", id, status.State)
			}
		}
	})
}

// TestDeletedQueueRetriesNothing checks that an attempt that was in flight ends
// without another one (contract, U-29).
func TestDeletedQueueRetriesNothing(t *testing.T) {
	slow := &recorder{takes: time.Second, outcome: func(*posthaste.Message, int) posthaste.Outcome { return broken }}
	inWorld(t, slow, engine.Options{}, func(w *world) {
		id := w.publish(engine.Publication{Queue: "q"})
		w.pass(100 * time.Millisecond)
		if err := w.DeleteQueue(w.t.Context(), user, "q"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Hour)
		w.wantLog(id, "0s CREATED", "0s ACTIVE", "100ms CANCEL_REQUESTED", "1s ERROR status 500", "1s CANCELLED")
	})
}

// Contract, messages 6.5.
func TestFlowControl(t *testing.T) {
	t.Run("rate", func(t *testing.T) {
		r := &recorder{}
		inWorld(t, r, engine.Options{}, func(w *world) {
			flow := posthaste.FlowControl{Key: "k", FlowLimit: posthaste.FlowLimit{Rate: 5, Period: 10 * time.Second}}
			w.enqueue("", 20, posthaste.Settings{FlowControl: flow})
			w.pass(time.Minute)
			var want []time.Duration
			for i := range 5 { // as they come in
				want = append(want, time.Duration(i)*time.Millisecond)
			}
			for i := range 15 { // as soon as a window opens
				want = append(want, time.Duration(1+i/5)*10*time.Second)
			}
			var got []time.Duration
			for _, at := range r.startedAt {
				got = append(got, at.Sub(w.start))
			}
			if !slices.Equal(got, want) {
				t.Errorf("attempts started after %v, want %v", got, want)
			}
		})
	})
	t.Run("parallelism", func(t *testing.T) {
		r := &recorder{takes: time.Second}
		inWorld(t, r, engine.Options{}, func(w *world) {
			flow := posthaste.FlowControl{Key: "k", FlowLimit: posthaste.FlowLimit{Parallelism: 3}}
			for i := range 12 {
				w.publish(engine.Publication{
					Destination: fmt.Sprintf("http://host-%d.example", i),
					Settings:    posthaste.Settings{FlowControl: flow},
				})
			}
			w.pass(time.Minute)
			if r.most != 3 || len(r.delivered) != 12 {
				t.Errorf("%d at once, %d delivered; want 3 and 12", r.most, len(r.delivered))
			}
		})
	})
	t.Run("together with a queue", func(t *testing.T) {
		r := &recorder{}
		inWorld(t, r, engine.Options{}, func(w *world) {
			flow := posthaste.FlowControl{Key: "k", FlowLimit: posthaste.FlowLimit{Rate: 1, Period: time.Second}}
			w.enqueue("q", 5, posthaste.Settings{FlowControl: flow})
			w.pass(time.Minute)
			r.wantOrder(t, 5)
			if took := r.startedAt[4].Sub(r.startedAt[0]); took < 4*time.Second {
				t.Errorf("five attempts at one a second took %s", took)
			}
		})
	})
	t.Run("pause, pin and the latest limits", func(t *testing.T) {
		r := &recorder{takes: time.Second}
		inWorld(t, r, engine.Options{}, func(w *world) {
			if err := w.PauseFlowKey(w.t.Context(), user, "k"); err != nil {
				t.Fatal(err)
			}
			flow := posthaste.FlowControl{Key: "k", FlowLimit: posthaste.FlowLimit{Parallelism: 3}}
			w.enqueue("", 6, posthaste.Settings{FlowControl: flow})
			status, err := w.FlowKey(w.t.Context(), user, "k")
			if err != nil || status.Waiting != 6 || status.Parallelism != 3 || !status.Paused {
				t.Fatalf("%+v, %v; want 6 waiting, parallelism 3, paused", status, err)
			}
			one := 1
			if err := w.PinFlowKey(w.t.Context(), user, "k", engine.Pin{Parallelism: &one}); err != nil {
				t.Fatal(err)
			}
			w.enqueue("", 1, posthaste.Settings{FlowControl: flow})
			if err := w.ResumeFlowKey(w.t.Context(), user, "k"); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Minute)
			if r.most != 1 || len(r.delivered) != 7 {
				t.Errorf("%d at once, %d delivered; want 1 and 7", r.most, len(r.delivered))
			}
		})
	})
}
