package engine

import (
	"testing"
	"time"

	"posthaste/internal/cron"
)

func TestMissedTicks(t *testing.T) {
	due := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		late    time.Duration
		refused bool
		want    int
	}{
		"in time":              {time.Second, false, 0},
		"refused":              {time.Second, true, 1},
		"nobody for an hour":   {time.Hour, false, 60},
		"nobody, then refused": {time.Hour, true, 61},
		"nobody for a year":    {365 * 24 * time.Hour, false, 7 * 24 * 60},
	}
	times, err := cron.Parse("* * * * *")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := missedTicks(times, due, due.Add(test.late), test.refused); got != test.want {
				t.Errorf("%d ticks were missed, want %d", got, test.want)
			}
		})
	}
}
