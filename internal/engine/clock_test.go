package engine_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// TestClockJumps sets the clock a minute after messages were published: forward, back,
// and both. Every message is delivered, none earlier than it is due by more than the
// clock was set forward, and none later by more than it was set back. That positions
// increase all the same is a part of the audit.
func TestClockJumps(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
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
				w.wantLogInOrder()
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

// wantLogInOrder wants the log to be the same in both orders, page by page, with times
// that never go down.
func (w *world) wantLogInOrder() {
	w.t.Helper()
	up, down := w.pages(true), w.pages(false)
	slices.Reverse(down)
	if !slices.Equal(up, down) || !slices.IsSorted(up) || len(up) < 3*len(w.ids) {
		w.t.Errorf("the log of %d messages, the oldest first:\n%v\nthe newest first, reversed:\n%v", len(w.ids), up, down)
	}
}

// pages returns the positions of the log, read by pages of three.
func (w *world) pages(oldestFirst bool) (positions []posthaste.Position) {
	w.t.Helper()
	query := store.EventQuery{High: posthaste.MaxPosition, OldestFirst: oldestFirst, Limit: 3}
	for {
		page, err := store.ReadEvents(w.t.Context(), w.store, user, query)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range page.Entries {
			positions = append(positions, e.Position)
		}
		if !page.More {
			return positions
		}
		query = behind(query, page)
	}
}

// TestClockJumpsOfSchedules sets the clock while a schedule ticks every ten minutes: what
// was jumped over is caught up by one tick, and after a jump back there is none until its
// time comes again.
func TestClockJumpsOfSchedules(t *testing.T) {
	tests := map[string]struct {
		jump time.Duration
		want []time.Duration // of the wall clock, since the start
	}{
		"none":            {0, []time.Duration{10, 20, 30, 40, 50, 60}},
		"an hour forward": {time.Hour, []time.Duration{10, 20, 85, 90, 100, 110, 120}},
		"an hour back":    {-time.Hour, []time.Duration{10, 20}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var offset atomic.Int64
			var ticks []time.Duration
			now := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
			start := time.Time{}
			destination := destinations{func(context.Context, *posthaste.Message, int) posthaste.Outcome {
				ticks = append(ticks, now().Sub(start)/time.Minute)
				return ok
			}}
			inWorld(t, destination, engine.Options{Now: now}, func(w *world) {
				start = w.start
				if _, err := w.PutSchedule(w.t.Context(), posthaste.Schedule{User: user, Cron: "*/10 * * * *", Destination: urlOK}); err != nil {
					t.Fatal(err)
				}
				w.pass(25 * time.Minute)
				offset.Store(int64(test.jump))
				w.pass(36 * time.Minute)
				if !slices.Equal(ticks, test.want) {
					t.Errorf("ticks in the minutes %d, want %d", ticks, test.want)
				}
				for _, e := range w.events() {
					if e.State == posthaste.StateCreated {
						w.ids = append(w.ids, e.MessageID)
					}
				}
			})
		})
	}
}

// events returns the whole log.
func (w *world) events() []store.Entry {
	w.t.Helper()
	page, err := store.ReadEvents(w.t.Context(), w.store, user, store.EventQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	return page.Entries
}

// TestRetentionDoubtsTheClock sets the clock a year ahead, while a server runs and before
// it starts again, perhaps after it has written to the log by that clock. One turn of
// retention is left out, in which the clock can be set right; otherwise what it says is
// believed.
func TestRetentionDoubtsTheClock(t *testing.T) {
	const year = 365 * day
	tests := map[string]struct {
		writes, restart, setRight bool
		want                      int // dead letters that are left
	}{
		"it runs, and the clock is set right":           {false, false, true, 1},
		"it runs, and the clock stays":                  {false, false, false, 0},
		"it writes, and the clock is set right":         {true, false, true, 2},
		"it starts, and the clock is set right":         {false, true, true, 1},
		"it starts, and the clock stays":                {false, true, false, 0},
		"it writes, starts, and the clock is set right": {true, true, true, 2},
		"it writes, starts, and the clock stays":        {true, true, false, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var offset atomic.Int64
			var log lockedLog
			options := engine.Options{
				Now:        func() time.Time { return time.Now().Add(time.Duration(offset.Load())) },
				Logger:     slog.New(slog.NewTextHandler(&log, nil)),
				Retention:  engine.Retention{DeadLetters: 90 * day},
				Dispatcher: answers(refusing),
			}
			inWorld(t, options.Dispatcher, options, func(w *world) {
				w.publish(engine.Publication{})
				w.pass(time.Minute)
				offset.Store(int64(year))
				letters := 1
				if test.writes {
					w.publish(engine.Publication{})
					w.pass(time.Minute)
					letters++
				}
				turn := trimEvery
				if test.restart {
					w.Stop(w.t.Context())
					options.Store = w.store
					w.Engine = engine.New(options)
					w.Start()
					turn = time.Minute // after the first, which is at the start
				}
				w.pass(turn)
				if left := len(w.deadLetters()); left != letters || !strings.Contains(log.String(), "retention.skipped") {
					t.Errorf("after the jump %d of %d dead letters are left; the server says\n%s", left, letters, log.String())
				}
				if test.setRight {
					offset.Store(0)
				}
				w.pass(2 * trimEvery)
				if letters := len(w.deadLetters()); letters != test.want {
					t.Errorf("%d dead letters are left, want %d", letters, test.want)
				}
			})
		})
	}
}

// A server that starts with a log that ends on a day to come says so: its clock is wrong, or
// was wrong before.
func TestAClockBehindTheLogIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		wrong time.Duration // by which the clock was ahead before the start
		tells bool
	}{
		"right":             {0, false},
		"two days ahead":    {2 * day, true},
		"in the same day":   {time.Hour, false}, // the world begins at midnight
		"a year ahead":      {365 * day, true},
		"behind, not ahead": {-2 * day, false},
	} {
		t.Run(name, func(t *testing.T) {
			var offset atomic.Int64
			var log lockedLog
			options := engine.Options{
				Now:        func() time.Time { return time.Now().Add(time.Duration(offset.Load())) },
				Logger:     slog.New(slog.NewTextHandler(&log, nil)),
				Dispatcher: answers(ok),
			}
			offset.Store(int64(test.wrong))
			inWorld(t, options.Dispatcher, options, func(w *world) {
				w.publish(engine.Publication{})
				w.pass(time.Minute)
				w.Stop(w.t.Context())
				offset.Store(0)
				options.Store = w.store
				w.Engine = engine.New(options)
				w.Start()
				w.pass(time.Minute)
				if tells := strings.Contains(log.String(), "clock.behind"); tells != test.tells {
					t.Errorf("it says so: %t, want %t\n%s", tells, test.tells, log.String())
				}
			})
		})
	}
}

// lockedLog is what a server says, to be read while it runs.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all that was said.
func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
