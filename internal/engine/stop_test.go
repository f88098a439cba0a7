package engine_test

import (
	"context"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/engine"
)

// TestStopDeliversBesideWhatHangs stops an engine while one destination does not answer,
// and looks at what becomes due meanwhile.
func TestStopDeliversBesideWhatHangs(t *testing.T) {
	const patience = 8 * time.Second
	slow := func(d time.Duration) engine.Dispatcher {
		return destinations{func(ctx context.Context, m *posthaste.Message, _ int) posthaste.Outcome {
			if m.URL == "http://slow.example/" {
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
			}
			return ok
		}}
	}
	for name, c := range map[string]struct {
		answers time.Duration // how long the slow destination takes
		delay   time.Duration // of a message for another, published at the same time
		took    time.Duration
		slow    []string
		other   []string
	}{
		"nothing is in flight": {
			answers: 0, delay: 2 * time.Second, took: 0,
			slow:  []string{"0s CREATED", "0s ACTIVE", "0s DELIVERED"},
			other: []string{"0s CREATED next 2s"},
		},
		"it answers in time": {
			answers: 4 * time.Second, delay: 2 * time.Second, took: 3 * time.Second,
			slow:  []string{"0s CREATED", "0s ACTIVE", "4s DELIVERED"},
			other: []string{"0s CREATED next 2s", "2s ACTIVE", "2s DELIVERED"},
		},
		"it hangs": {
			answers: time.Hour, delay: 6 * time.Second, took: patience,
			slow:  []string{"0s CREATED", "0s ACTIVE"},
			other: []string{"0s CREATED next 6s", "6s ACTIVE", "6s DELIVERED"},
		},
		"it hangs, and the other is due too late": {
			answers: time.Hour, delay: 7500 * time.Millisecond, took: patience,
			slow:  []string{"0s CREATED", "0s ACTIVE"},
			other: []string{"0s CREATED next 7.5s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, slow(c.answers), engine.Options{}, func(w *world) {
				first := w.publish(engine.Publication{Destination: "http://slow.example/"})
				other := w.publish(engine.Publication{Destination: "http://other.example/", Delay: c.delay})
				w.pass(time.Second)
				stopped := time.Now()
				ctx, cancel := context.WithTimeout(w.t.Context(), patience)
				defer cancel()
				w.Stop(ctx)
				if took := time.Since(stopped); took != c.took {
					t.Errorf("Stop took %s, want %s", took, c.took)
				}
				w.wantLog(first, c.slow...)
				w.wantLog(other, c.other...)
			})
		})
	}
}

// TestStopCountsNoRetry abandons an attempt and looks at what the next engine is told.
func TestStopCountsNoRetry(t *testing.T) {
	hangs := destinations{func(ctx context.Context, _ *posthaste.Message, _ int) posthaste.Outcome {
		<-ctx.Done()
		return broken
	}}
	inWorld(t, hangs, engine.Options{}, func(w *world) {
		id := w.publish(engine.Publication{})
		w.pass(time.Second)
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		w.Stop(ctx)
		told := -1
		next := engine.New(engine.Options{Store: w.store, Dispatcher: destinations{func(_ context.Context, _ *posthaste.Message, retried int) posthaste.Outcome {
			told = retried
			return ok
		}}})
		next.Start()
		w.pass(time.Second)
		next.Stop(w.t.Context())
		if told != 0 {
			t.Errorf("the attempt after an abandoned one is retry %d, want 0", told)
		}
		w.wantLog(id, "0s CREATED", "0s ACTIVE", "2s ACTIVE", "2s DELIVERED")
	})
}
