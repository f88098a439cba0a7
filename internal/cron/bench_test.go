package cron_test

import (
	"testing"
)

func BenchmarkNext(b *testing.B) {
	for _, text := range []string{
		"*/5 * * * *", "TZ=Europe/Berlin 30 2 * * *", "TZ=Europe/Berlin 0 0 29 2 *", "TZ=Africa/Cairo 30 1 1 5 *", "@every 90m",
	} {
		b.Run(text, func(b *testing.B) {
			schedule, after := mustParse(b, text), instant(b, "1960-03-01T00:00:00Z")
			for b.Loop() {
				schedule.Next(after)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		mustParse(b, "TZ=Europe/Berlin */15 9-17 * * MON-FRI")
	}
}
