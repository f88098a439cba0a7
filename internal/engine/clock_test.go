package engine_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/engine"
)

// TestClockJumps sets the clock a minute after messages were published: forward, back,
// and both. Every message is delivered, none earlier than it is due by more than the
// clock was set forward, and none later by more than it was set back. That positions
// increase all the same is a part of the audit.
func TestClockJumps(t *testing.T) {
	const slack = 10 * time.Second // of the loop, which looks at the clock at every heartbeat
	tests := []struct {
		name  string
		jumps []time.Duration // a minute apart
	}{
		{"an hour forward", []time.Duration{time.Hour}},
		{"an hour back", []time.Duration{-time.Hour}},
		{"a day back", []time.Duration{-24 * time.Hour}},
		{"forward and back", []time.Duration{time.Hour, -time.Hour}},
		{"back and forward", []time.Duration{-time.Hour, time.Hour}},
		{"some milliseconds back, again and again", []time.Duration{-3 * time.Millisecond, -3 * time.Millisecond, -3 * time.Millisecond}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var offset atomic.Int64
			attempts := &attemptTimes{at: map[posthaste.MessageID][]time.Time{}}
			now := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
			inWorld(t, attempts, engine.Options{Now: now}, func(w *world) {
				due := map[posthaste.MessageID]time.Duration{
					w.publish(engine.Publication{}):                                 0,
					w.publish(engine.Publication{Delay: 30 * time.Second}):          30 * time.Second,
					w.publish(engine.Publication{Delay: 10 * time.Minute}):          10 * time.Minute,
					w.publish(engine.Publication{Delay: 2 * time.Hour, Queue: "q"}): 2 * time.Hour,
				}
				var forward, back time.Duration
				for _, jump := range test.jumps {
					w.pass(time.Minute)
					offset.Add(int64(jump))
					forward, back = forward+max(jump, 0), back+max(-jump, 0)
					due[w.publish(engine.Publication{Queue: "q"})] = time.Since(w.start)
				}
				w.pass(2*time.Hour + back + slack)
				for id, want := range due {
					times := attempts.of(id)
					if len(times) != 2 {
						t.Errorf("message due after %v was attempted %d times, want one failure and one success", want, len(times))
						continue
					}
					if early := want - times[0].Sub(w.start); early > forward {
						t.Errorf("message due after %v came %v early; the clock was set forward by %v", want, early, forward)
					}
					if late := times[0].Sub(w.start) - want; late > back+slack {
						t.Errorf("message due after %v came %v late; the clock was set back by %v", want, late, back)
					}
				}
			})
		})
	}
}

// attemptTimes refuses the first attempt of each message and accepts the second, and
// remembers when they were.
type attemptTimes struct {
	mu sync.Mutex
	at map[posthaste.MessageID][]time.Time
}

// Attempt implements engine.Dispatcher.
func (a *attemptTimes) Attempt(_ context.Context, m *posthaste.Message, retried int) posthaste.Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[m.ID] = append(a.at[m.ID], time.Now())
	if retried == 0 {
		return broken
	}
	return ok
}

func (a *attemptTimes) of(id posthaste.MessageID) []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at[id]
}
