package storetest

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Contract, messages 6.3.
var schedulePromises = []promise{
	{"a schedule is kept as it was left", func(tr *trial) {
		want := tr.schedule("s", tr.now.Add(time.Hour))
		got := must(tr.store.Schedule(tr.Context(), ann, "s"))(tr)
		tr.same("schedule", want, got)
		tr.updateSchedule("s", func(s *posthaste.Schedule) { tr.same("schedule that is changed", want, s) })
	}},
	{"a change that fails changes nothing", func(tr *trial) {
		broken := errors.New("no change")
		err := tr.store.UpdateSchedule(tr.Context(), tr.now, ann, "s", func(s *posthaste.Schedule) error {
			s.NextAt = tr.now
			return broken
		})
		tr.wantErr(broken, err)
		tr.wantErr(store.ErrNotFound, errorOf(tr.store.Schedule(tr.Context(), ann, "s")))
		tr.wantDue(plenty, time.Time{})
	}},
	{"schedules are listed by id and user", func(tr *trial) {
		for _, id := range []string{"b", "a/1", "a"} {
			tr.schedule(id, tr.now)
		}
		all := must(tr.allSchedules(ann))(tr)
		tr.same("schedules", []string{"a", "a/1", "b"}, idsOfSchedules(all))
		if others, err := tr.allSchedules(anna); err != nil || len(others) > 0 {
			tr.Errorf("schedules of another user: %v, %v", others, err)
		}
	}},
	{"schedules are due in the order of their times", func(tr *trial) {
		tr.schedule("later", tr.now.Add(2*time.Minute))
		tr.schedule("sooner", tr.now.Add(time.Minute))
		tr.schedule("never", time.Time{})
		tr.wantDue(plenty, tr.now.Add(time.Minute))
		tr.wait(time.Minute)
		tr.wantDue(plenty, tr.now.Add(time.Minute), "sooner")
		tr.wait(time.Minute)
		tr.wantDue(plenty, time.Time{}, "sooner", "later")
		tr.wantDue(1, tr.now, "sooner")
	}},
	{"schedules of some users are left out", func(tr *trial) {
		tr.schedule("hers", tr.now)
		tr.schedule("hers too", tr.now)
		err := tr.store.UpdateSchedule(tr.Context(), tr.now, anna, "theirs", func(s *posthaste.Schedule) error {
			s.Cron, s.NextAt = "* * * * *", tr.now.Add(time.Minute)
			return nil
		})
		if err != nil {
			tr.Fatal(err)
		}
		for _, test := range []struct {
			except []string
			want   []string
			next   time.Time
		}{
			{[]string{anna}, []string{"hers", "hers too"}, time.Time{}},
			{[]string{ann}, nil, tr.now.Add(time.Minute)},
			{[]string{ann, anna}, nil, time.Time{}},
		} {
			due, next, err := tr.store.DueSchedules(tr.Context(), tr.now, 2, test.except...)
			if err != nil || !slices.Equal(slices.Sorted(slices.Values(idsOfSchedules(due))), test.want) || !next.Equal(test.next) {
				tr.Errorf("without %q: due %q, next %v, %v, want %q and %v", test.except, idsOfSchedules(due), next, err, test.want, test.next)
			}
		}
	}},
	{"a schedule that is moved, paused or deleted is not due", func(tr *trial) {
		for _, id := range []string{"moved", "paused", "deleted"} {
			tr.schedule(id, tr.now)
		}
		tr.updateSchedule("moved", func(s *posthaste.Schedule) { s.NextAt = tr.now.Add(time.Hour) })
		tr.updateSchedule("paused", func(s *posthaste.Schedule) { s.Paused = true })
		for range 2 {
			tr.ok(tr.store.DeleteSchedule(tr.Context(), ann, "deleted"))
		}
		tr.wantDue(plenty, tr.now.Add(time.Hour))
		tr.updateSchedule("paused", func(s *posthaste.Schedule) { s.Paused = false })
		tr.wantDue(plenty, tr.now.Add(time.Hour), "paused")
	}},
	{"a tick accepts its messages and moves the schedule", func(tr *trial) {
		s := tr.schedule("s", tr.now)
		m := tr.message(func(m *posthaste.Message) { m.ScheduleID = "s" })
		after := afterTick(s, m)
		tr.ok(tr.store.Tick(tr.Context(), tr.now, s, after, []*posthaste.Message{m}))
		tr.wantDue(plenty, after.NextAt)
		got := must(tr.store.Schedule(tr.Context(), ann, "s"))(tr)
		tr.same("schedule after its tick", after, got)
		tr.claimOne(m)
		tr.wantLog(m, "CREATED ACTIVE")
	}},
	{"a tick undoes no change of the schedule it was made of", func(tr *trial) {
		for id, change := range map[string]func(*posthaste.Schedule){
			"destination": func(s *posthaste.Schedule) { s.Destination = "http://b.example/" },
			"body":        func(s *posthaste.Schedule) { s.Body = []byte("tock") },
			"header":      func(s *posthaste.Schedule) { s.Header = http.Header{"A": {"2"}} },
			"retries":     func(s *posthaste.Schedule) { s.Retries = nil },
			"callback":    func(s *posthaste.Schedule) { s.Callback = &posthaste.Callback{URL: "http://c.example/"} },
			"last tick":   func(s *posthaste.Schedule) { s.LastAt = tr.now.Add(-time.Hour) },
			"no error":    func(s *posthaste.Schedule) { s.Error = "no such group" },
		} {
			read := tr.schedule(id, tr.now)
			var changed posthaste.Schedule
			tr.updateSchedule(id, func(s *posthaste.Schedule) {
				change(s)
				changed = *s
			})
			tr.wantConflict(read)
			got := must(tr.store.Schedule(tr.Context(), ann, id))(tr)
			tr.same("schedule after the conflict", &changed, got)
			m := tr.message()
			after := afterTick(got, m)
			if err := tr.store.Tick(tr.Context(), tr.now, got, after, []*posthaste.Message{m}); err != nil {
				tr.Errorf("Tick of the changed schedule: %v", err)
			}
		}
	}},
	{"a tick of a schedule that is not due then is a conflict", func(tr *trial) {
		for id, change := range map[string]func(*posthaste.Schedule){
			"moved":    func(s *posthaste.Schedule) { s.NextAt = tr.now.Add(time.Hour) },
			"paused":   func(s *posthaste.Schedule) { s.Paused = true },
			"finished": func(s *posthaste.Schedule) { s.NextAt = time.Time{} },
		} {
			s := tr.schedule(id, tr.now)
			tr.updateSchedule(id, change)
			tr.wantConflict(s)
		}
		deleted := tr.schedule("deleted", tr.now)
		tr.ok(tr.store.DeleteSchedule(tr.Context(), ann, "deleted"))
		tr.wantConflict(deleted)
		tr.wantNoClaims()
	}},
}

// schedule stores a schedule of ann that is due at next.
func (tr *trial) schedule(id string, next time.Time) *posthaste.Schedule {
	tr.Helper()
	var stored posthaste.Schedule
	tr.updateSchedule(id, func(s *posthaste.Schedule) {
		retries := 2
		s.Cron, s.Destination, s.Queue = "* * * * *", "http://a.example/", "q"
		s.Body, s.Delay, s.CallerIP = []byte("tick"), time.Second, "192.0.2.1"
		s.CreatedAt, s.NextAt = tr.now, next
		s.Settings = posthaste.Settings{Method: http.MethodPut, Header: http.Header{"A": {"1"}}, Retries: &retries}
		stored = *s
	})
	return &stored
}

// afterTick returns a schedule as it is after a tick that made a message.
func afterTick(s *posthaste.Schedule, m *posthaste.Message) *posthaste.Schedule {
	after := *s
	after.LastAt, after.NextAt = s.NextAt, s.NextAt.Add(time.Minute)
	after.LastMessages = []posthaste.MessageID{m.ID}
	return &after
}

func (tr *trial) updateSchedule(id string, change func(*posthaste.Schedule)) {
	tr.Helper()
	err := tr.store.UpdateSchedule(tr.Context(), tr.now, ann, id, func(s *posthaste.Schedule) error {
		change(s)
		return nil
	})
	if err != nil {
		tr.Fatalf("UpdateSchedule: %v", err)
	}
}

func (tr *trial) wantConflict(s *posthaste.Schedule) {
	tr.Helper()
	m := newMaker(97).message(tr.now)
	err := tr.store.Tick(tr.Context(), tr.now, s, afterTick(s, m), []*posthaste.Message{m})
	tr.wantErr(store.ErrConflict, err)
}

// wantDue requires these schedules to be due now, and the next other one at next.
func (tr *trial) wantDue(limit int, next time.Time, ids ...string) {
	tr.Helper()
	due, got, err := tr.store.DueSchedules(tr.Context(), tr.now, limit)
	if err != nil {
		tr.Fatal(err)
	}
	if !slices.Equal(idsOfSchedules(due), ids) || !got.Equal(next) {
		tr.Errorf("due %q, next %v, want %q and %v", idsOfSchedules(due), got, ids, next)
	}
}

func idsOfSchedules(schedules []*posthaste.Schedule) []string {
	var ids []string
	for _, s := range schedules {
		ids = append(ids, s.ID)
	}
	return ids
}
