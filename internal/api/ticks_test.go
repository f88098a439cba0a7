package api

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste/internal/cron"
)

func TestTicks(t *testing.T) {
	now := time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC)
	at := func(text string) int64 {
		tick, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return tick.UnixMilli()
	}
	tests := map[string]struct {
		cron string
		want ticksView
	}{
		"in UTC unless it has a zone": {"0 9 * * MON", ticksView{
			Zone: "UTC", Ticks: []int64{at("2026-03-30T09:00:00Z"), at("2026-04-06T09:00:00Z")}}},
		"a zone whose clock is set in between": {"CRON_TZ=Europe/Berlin 0 9 * * *", ticksView{
			Zone: "Europe/Berlin", Ticks: []int64{at("2026-03-29T07:00:00Z"), at("2026-03-30T07:00:00Z")}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			schedule, err := cron.Parse(test.cron)
			if err != nil {
				t.Fatal(err)
			}
			test.want.Cron = test.cron
			if diff := cmp.Diff(test.want, newTicksView(test.cron, schedule, now, 2)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
