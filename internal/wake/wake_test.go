package wake_test

import (
	"testing"
	"time"

	"posthaste/internal/wake"
)

func TestIn(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	tests := []struct {
		name string
		then time.Time
		want time.Duration
	}{
		{"soon", now.Add(time.Second), time.Second},
		{"now", now, time.Nanosecond},
		{"long ago", now.Add(-time.Hour), time.Nanosecond},
		{"never", time.Time{}, time.Nanosecond},
		{"too far away", now.Add(time.Hour), time.Minute},
		{"in another age", now.AddDate(1000, 0, 0), time.Minute},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := wake.In(test.then, now, time.Minute); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
