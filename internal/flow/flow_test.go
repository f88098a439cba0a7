package flow_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"posthaste"
	"posthaste/internal/flow"
)

var start = time.UnixMilli(1_750_000_000_000)

// Contract, messages 6.5.
func TestAdmit(t *testing.T) {
	three := posthaste.FlowLimit{Rate: 3, Period: time.Second}
	for name, c := range map[string]struct {
		limit   posthaste.FlowLimit
		window  flow.Window
		want    flow.Window
		retryAt time.Time
		ok      bool
	}{
		"no rate":         {posthaste.FlowLimit{Parallelism: 1}, flow.Window{}, flow.Window{}, time.Time{}, true},
		"first":           {three, flow.Window{}, flow.Window{StartedAt: start, Count: 1}, time.Time{}, true},
		"room":            {three, flow.Window{StartedAt: start.Add(-500 * time.Millisecond), Count: 2}, flow.Window{StartedAt: start.Add(-500 * time.Millisecond), Count: 3}, time.Time{}, true},
		"full":            {three, flow.Window{StartedAt: start.Add(-300 * time.Millisecond), Count: 3}, flow.Window{StartedAt: start.Add(-300 * time.Millisecond), Count: 3}, start.Add(700 * time.Millisecond), false},
		"ended just now":  {three, flow.Window{StartedAt: start.Add(-time.Second), Count: 3}, flow.Window{StartedAt: start, Count: 1}, time.Time{}, true},
		"clock went back": {three, flow.Window{StartedAt: start.Add(time.Hour), Count: 3}, flow.Window{StartedAt: start, Count: 1}, time.Time{}, true},
		"default period":  {posthaste.FlowLimit{Rate: 1}, flow.Window{StartedAt: start, Count: 1}, flow.Window{StartedAt: start, Count: 1}, start.Add(time.Second), false},
	} {
		t.Run(name, func(t *testing.T) {
			got, retryAt, ok := c.window.Admit(c.limit, start)
			if got != c.want || !retryAt.Equal(c.retryAt) || ok != c.ok {
				t.Errorf("Admit = %+v, %v, %v; want %+v, %v, %v", got, retryAt, ok, c.want, c.retryAt, c.ok)
			}
		})
	}
}

func TestAdmitUnderAKey(t *testing.T) {
	const period = time.Minute
	both := posthaste.FlowLimit{Parallelism: 2, Rate: 3, Period: period}
	began := start.Add(-time.Second)
	for name, c := range map[string]struct {
		key      posthaste.FlowKey // its window began at began
		inFlight int
		retryAt  time.Time
		ok       bool
	}{
		"no limits":                         {posthaste.FlowKey{}, 1000, time.Time{}, true},
		"within both limits":                {posthaste.FlowKey{FlowLimit: both, WindowCount: 2}, 1, time.Time{}, true},
		"too many in flight":                {posthaste.FlowKey{FlowLimit: both}, 2, time.Time{}, false},
		"more than allowed":                 {posthaste.FlowKey{FlowLimit: both}, 3, time.Time{}, false},
		"the window is full":                {posthaste.FlowKey{FlowLimit: both, WindowCount: 3}, 1, began.Add(period), false},
		"an event comes first":              {posthaste.FlowKey{FlowLimit: both, WindowCount: 3}, 2, time.Time{}, false},
		"paused":                            {posthaste.FlowKey{Paused: true}, 0, time.Time{}, false},
		"paused, and full":                  {posthaste.FlowKey{Paused: true, FlowLimit: both, WindowCount: 3}, 0, time.Time{}, false},
		"parallelism alone":                 {posthaste.FlowKey{FlowLimit: posthaste.FlowLimit{Parallelism: 1}, WindowCount: 9}, 0, time.Time{}, true},
		"rate alone, none left":             {posthaste.FlowKey{FlowLimit: posthaste.FlowLimit{Rate: 1, Period: period}, WindowCount: 1}, 0, began.Add(period), false},
		"rate alone, whatever is in flight": {posthaste.FlowKey{FlowLimit: posthaste.FlowLimit{Rate: 2, Period: period}, WindowCount: 1}, 99, time.Time{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c.key.WindowStartedAt = began
			want := flow.WindowOf(&c.key)
			if c.ok && c.key.Rate > 0 {
				want.Count++
			}
			window, retryAt, ok := flow.Admit(&c.key, c.inFlight, start)
			if window != want || !retryAt.Equal(c.retryAt) || ok != c.ok {
				t.Errorf("Admit = %+v, %v, %t; want %+v, %v, %t", window, retryAt, ok, want, c.retryAt, c.ok)
			}
		})
	}
}

// Attempts under a key start and end at any time: one starts exactly if fewer are in flight than
// the parallelism, and fewer have started since the window began than the rate.
func TestAdmitAgreesWithTheNaiveRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := posthaste.FlowKey{FlowLimit: posthaste.FlowLimit{
			Parallelism: rapid.IntRange(0, 3).Draw(t, "parallelism"),
			Rate:        rapid.IntRange(0, 4).Draw(t, "rate"),
			Period:      time.Duration(rapid.IntRange(1, 5).Draw(t, "period")) * time.Second,
		}}
		now, inFlight := start, 0
		var began time.Time     // the window of the naive rule
		var started []time.Time // all attempts
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "wait")) * time.Millisecond)
			if inFlight > 0 && rapid.Bool().Draw(t, "one ends") {
				inFlight--
			}
			key.Paused = rapid.IntRange(0, 9).Draw(t, "pause") == 0
			inWindow := 0
			for _, at := range started {
				if !at.Before(began) && now.Before(began.Add(key.Period)) {
					inWindow++
				}
			}
			want := !key.Paused && (key.Parallelism == 0 || inFlight < key.Parallelism) && (key.Rate == 0 || inWindow < key.Rate)
			window, retryAt, ok := flow.Admit(&key, inFlight, now)
			if ok != want {
				t.Fatalf("Admit = %t with %d in flight under %+v, %d in its window, want %t", ok, inFlight, key, inWindow, want)
			}
			if !retryAt.IsZero() && (ok || !retryAt.Equal(began.Add(key.Period))) {
				t.Fatalf("Admit = %t, and at %v; the window began at %v", ok, retryAt, began)
			}
			if !ok {
				continue
			}
			key.WindowStartedAt, key.WindowCount = window.StartedAt, window.Count
			if !now.Before(began.Add(key.Period)) {
				began = now
			}
			started, inFlight = append(started, now), inFlight+1
		}
	})
}

// A limiter that tries whenever it is told to keeps to the rate in each window,
// and starts as many as the rate allows.
func TestAdmitKeepsTheRateAndUsesIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := posthaste.FlowLimit{
			Rate:   rapid.IntRange(1, 20).Draw(t, "rate"),
			Period: time.Duration(rapid.IntRange(1, 5000).Draw(t, "period")) * time.Millisecond,
		}
		windows := rapid.IntRange(1, 10).Draw(t, "windows")
		now, started := start, 0
		var w flow.Window
		for started < limit.Rate*windows {
			next, retryAt, ok := w.Admit(limit, now)
			if !ok {
				now = retryAt
				continue
			}
			w, started = next, started+1
			if w.Count > limit.Rate {
				t.Fatalf("%d attempts in a window of %d", w.Count, limit.Rate)
			}
		}
		if want := start.Add(time.Duration(windows-1) * limit.Period); !now.Equal(want) {
			t.Fatalf("%d windows took until %s, want %s", windows, now.Sub(start), want.Sub(start))
		}
	})
}

func TestCurrent(t *testing.T) {
	limit := posthaste.FlowLimit{Rate: 3, Period: time.Second}
	running := flow.Window{StartedAt: start, Count: 2}
	if got := running.Current(limit, start.Add(999*time.Millisecond)); got != running {
		t.Errorf("running window = %+v, want %+v", got, running)
	}
	if got := running.Current(limit, start.Add(-time.Millisecond)); got != running {
		t.Errorf("window begun since its reader looked at the clock = %+v, want %+v", got, running)
	}
	later := start.Add(time.Second)
	if got, want := running.Current(limit, later), (flow.Window{StartedAt: later}); got != want {
		t.Errorf("ended window = %+v, want %+v", got, want)
	}
}

func TestCeilingLeavesRoom(t *testing.T) {
	const slots, lanes = 4096, 1000
	free, inflight := slots, make([]int, lanes)
	for progress := true; progress; {
		progress = false
		for i := range inflight {
			if free > 0 && inflight[i] < flow.Ceiling(free) {
				inflight[i]++
				free--
				progress = true
			}
		}
	}
	if free == 0 {
		t.Error("a thousand lanes that hang took every slot")
	}
	if only := flow.Ceiling(slots); only < slots/10 {
		t.Errorf("a lane that is alone may have %d of %d slots", only, slots)
	}
}
