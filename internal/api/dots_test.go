package api_test

import (
	"net/http"
	"testing"
	"time"

	"posthaste"
)

// TestNamesOfDotsAreServed checks that a queue and a schedule which have a name that nothing
// can be given any more are listed, deliver, and can be done with by clients that leave a path
// as it is.
func TestNamesOfDotsAreServed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.nameByDots()
		w.after(time.Hour+time.Minute, `POST https://example.com/tick retried 0 ""`)
		var schedules []struct{ ScheduleID string }
		w.do(http.MethodGet, "/v2/schedules", "", &schedules)
		var queues []struct{ Name string }
		w.do(http.MethodGet, "/v2/queues", "", &queues)
		if len(schedules) != 1 || schedules[0].ScheduleID != ".." || len(queues) != 1 || queues[0].Name != ".." {
			w.Errorf("schedules %v and queues %v are listed", schedules, queues)
		}
		for _, path := range []string{"/v2/queues/..", "/v2/schedules/.."} {
			w.do(http.MethodGet, path, "", nil)
			w.do(http.MethodPost, path+"/pause", "", nil)
			w.do(http.MethodPost, path+"/resume", "", nil)
			w.do(http.MethodDelete, path, "", nil)
		}
	})
}

// nameByDots leaves a queue and a schedule that goes through it, both called "..".
func (w *world) nameByDots() {
	w.Helper()
	w.do(http.MethodPost, "/v2/schedules/https://example.com/tick", "", nil, "Upstash-Cron: 0 * * * *", "Upstash-Schedule-Id: first")
	first, err := w.store.Schedule(w.Context(), "ann", "first")
	if err != nil {
		w.Fatal(err)
	}
	w.do(http.MethodDelete, "/v2/schedules/first", "", nil)
	err = w.store.UpdateQueue(w.Context(), time.Now(), "ann", "..", func(q *posthaste.Queue) error {
		q.Parallelism = 1
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	err = w.store.UpdateSchedule(w.Context(), time.Now(), "ann", "..", func(s *posthaste.Schedule) error {
		*s = *first
		s.ID, s.Queue = "..", ".."
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
}
