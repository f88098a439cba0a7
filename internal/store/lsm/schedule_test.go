package lsm

import (
	"strings"
	"testing"
	"time"

	"posthaste"
)

// A schedule that cannot be read is told of, and the others are due.
func TestDueSchedulesBesideADamagedOne(t *testing.T) {
	s, now := openInMemory(t), time.UnixMilli(1_700_000_000_000)
	for id, next := range map[string]time.Time{"damaged": now, "later": now.Add(time.Minute), "whole": now} {
		err := s.UpdateSchedule(t.Context(), now, "ann", id, func(schedule *posthaste.Schedule) error {
			schedule.NextAt = next
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.damage(t, schedules.key("ann", "damaged"))
	due, next, err := s.DueSchedules(t.Context(), now, 1)
	if len(due) != 1 || due[0].ID != "whole" || !next.Equal(now.Add(time.Minute)) {
		t.Errorf("due %v, next %v; want the schedule that is whole, then the later one", due, next)
	}
	if err == nil || !strings.Contains(err.Error(), `"damaged"`) {
		t.Errorf("DueSchedules = %v, want an error that names the damaged one", err)
	}
}
