package node

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"posthaste/internal/store"
)

const year = 365 * 24 * time.Hour

func TestClock(t *testing.T) {
	for name, c := range map[string]struct {
		ahead []time.Duration // of this node, each time they are compared
		warns int
		apart bool // in the end this node takes no part
	}{
		"the same":                    {[]time.Duration{0, 0}, 0, false},
		"less than anybody minds":     {[]time.Duration{900 * time.Millisecond, -900 * time.Millisecond}, 0, false},
		"ahead":                       {[]time.Duration{5 * time.Second, 5 * time.Second}, 1, false},
		"behind":                      {[]time.Duration{-5 * time.Second}, 1, false},
		"set right and off again":     {[]time.Duration{2 * time.Second, 0, 2 * time.Second}, 2, false},
		"as far apart as may be":      {[]time.Duration{maxOffset}, 1, false},
		"farther ahead":               {[]time.Duration{maxOffset + time.Millisecond}, 1, true},
		"a year ahead":                {[]time.Duration{0, year, year}, 1, true},
		"a year behind":               {[]time.Duration{-year}, 1, true},
		"a year ahead, and set right": {[]time.Duration{year, 0}, 1, false},
		"ahead, then a year ahead":    {[]time.Duration{5 * time.Second, year}, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				var told time.Duration
				clock := clock{logger: slog.New(slog.NewTextHandler(&log, nil)), onOffset: func(ahead time.Duration) { told = ahead }}
				var err error
				for _, ahead := range c.ahead {
					err = clock.compare(time.Now(), time.Now().Add(-ahead))
					if told != ahead {
						t.Errorf("it is told to be %v ahead, want %v", told, ahead)
					}
				}
				if got := strings.Count(log.String(), "node.clock"); got != c.warns {
					t.Errorf("that was warned of %d times, want %d:\n%s", got, c.warns, &log)
				}
				if apart := errors.Is(err, store.ErrClock) && errors.Is(err, store.ErrUnavailable); apart != c.apart || clock.err() != err {
					t.Errorf("compare = %v, and then err = %v; want that it takes no part: %t", err, clock.err(), c.apart)
				}
			})
		})
	}
}

// A test's node takes part in whatever time it lives.
func TestAnyClock(t *testing.T) {
	clock := clock{logger: slog.New(slog.DiscardHandler), any: true}
	if err := clock.compare(time.Now(), time.Now().Add(year)); err != nil || clock.err() != nil {
		t.Errorf("compare = %v, err = %v; want nothing", err, clock.err())
	}
}

// The time of the database goes on by the monotonic clock of the node, and changes only where
// it does not agree with what the database says.
func TestTimeOfTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clock{logger: slog.New(slog.DiscardHandler)}
		began := time.Now()
		for _, step := range []struct {
			name  string
			took  time.Duration // to ask
			there time.Duration // at the database meanwhile, since it was first asked
			want  time.Duration // right after it
		}{
			{"first, slowly, which agrees with the clock of this node", 2 * time.Second, 500 * time.Millisecond, 2 * time.Second},
			{"sooner, which does not", 2 * time.Millisecond, 1400 * time.Millisecond, 1402 * time.Millisecond},
			{"slowly again, which agrees with what is known", time.Second, 1500 * time.Millisecond, 2402 * time.Millisecond},
			{"rounded down", 0, 2402*time.Millisecond - 999, 2402 * time.Millisecond},
			{"set ahead", 2 * time.Millisecond, time.Hour, time.Hour},
			{"set back", 2 * time.Millisecond, 0, 2 * time.Millisecond},
		} {
			asked := time.Now()
			time.Sleep(step.took)
			_ = clock.compare(asked, began.Add(step.there))
			if got := clock.now().Sub(began); got != step.want {
				t.Errorf("%s: it is %v, want %v", step.name, got, step.want)
			}
		}
		time.Sleep(time.Minute)
		if got, want := clock.now().Sub(began), time.Minute+2*time.Millisecond; got != want {
			t.Errorf("a minute later it is %v, want %v", got, want)
		}
	})
}
