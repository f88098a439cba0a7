package main

import (
	"testing"
	"time"
)

func TestLogsSpanTheirShareOfTheDays(t *testing.T) {
	const day = 24 * time.Hour
	for _, test := range []struct {
		days, entries int
		want          time.Duration
	}{
		{0, 1_000, 3 * day},
		{0, 100_000, 3 * day},
		{365, 100_000, 365 * day},
		{365, 1_000, 365 * day / 100},
	} {
		options := Options{Entries: []int{1_000, 100_000}, Days: test.days}
		if got := options.spanOf(test.entries); got != test.want {
			t.Errorf("%d entries of %d days span %s, want %s", test.entries, test.days, got, test.want)
		}
	}
}
