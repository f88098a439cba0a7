package postgres

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestClock(t *testing.T) {
	for name, c := range map[string]struct {
		ahead []time.Duration // of this node, each time they are compared
		warns int
	}{
		"the same":                {[]time.Duration{0, 0}, 0},
		"less than anybody minds": {[]time.Duration{900 * time.Millisecond, -900 * time.Millisecond}, 0},
		"ahead":                   {[]time.Duration{5 * time.Second, 5 * time.Second}, 1},
		"behind":                  {[]time.Duration{-5 * time.Second}, 1},
		"set right and off again": {[]time.Duration{2 * time.Second, 0, 2 * time.Second}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				var told time.Duration
				clock := clock{logger: slog.New(slog.NewTextHandler(&log, nil)), tell: func(ahead time.Duration) { told = ahead }}
				for _, ahead := range c.ahead {
					clock.compare(time.Now(), time.Now().Add(-ahead))
					if told != ahead {
						t.Errorf("it is told to be %v ahead, want %v", told, ahead)
					}
				}
				if got := strings.Count(log.String(), "node.clock"); got != c.warns {
					t.Errorf("that was warned of %d times, want %d:\n%s", got, c.warns, &log)
				}
			})
		})
	}
}
