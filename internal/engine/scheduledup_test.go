package engine_test

import (
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// Contract, U-7.
func TestPutScheduleDedup(t *testing.T) {
	schedule := posthaste.Schedule{User: user, Cron: "0 0 1 1 *", Destination: "http://a.example", Body: []byte("hi")}
	put := func(w *world, edit func(*posthaste.Schedule), once engine.Dedup) (id string, repeated bool) {
		t.Helper()
		s := schedule
		if edit != nil {
			edit(&s)
		}
		id, repeated, err := w.PutScheduleDedup(w.t.Context(), s, once)
		if err != nil {
			t.Fatal(err)
		}
		return id, repeated
	}
	inWorld(t, answers(ok), engine.Options{}, func(w *world) {
		time.Sleep(7 * time.Minute) // the windows of ids begin at the full ten minutes
		id, repeated := put(w, nil, engine.Dedup{ID: "d"})
		if repeated {
			t.Error("the first request is a repetition")
		}
		tests := []struct {
			name     string
			edit     func(*posthaste.Schedule)
			once     engine.Dedup
			repeated bool
		}{
			{"the same again", nil, engine.Dedup{ID: "d"}, true},
			{"the id beats the content", func(s *posthaste.Schedule) { s.Body = nil }, engine.Dedup{ID: "d", ByContent: true}, true},
			{"another id", nil, engine.Dedup{ID: "e"}, false},
			{"nothing that identifies it", nil, engine.Dedup{}, false},
			{"another user", func(s *posthaste.Schedule) { s.User = "bob" }, engine.Dedup{ID: "d"}, false},
			{"an id of its own", func(s *posthaste.Schedule) { s.ID = "mine" }, engine.Dedup{ID: "d"}, false},
			{"by content", nil, engine.Dedup{ByContent: true}, false},
			{"by the same content", nil, engine.Dedup{ByContent: true}, true},
			{"by another body", func(s *posthaste.Schedule) { s.Body = []byte("ho") }, engine.Dedup{ByContent: true}, false},
			{"by another expression", func(s *posthaste.Schedule) { s.Cron = "1 0 1 1 *" }, engine.Dedup{ByContent: true}, false},
		}
		for _, test := range tests {
			if _, repeated := put(w, test.edit, test.once); repeated != test.repeated {
				t.Errorf("%s: repeated = %v", test.name, repeated)
			}
		}
		time.Sleep(store.DedupWindow - time.Millisecond)
		if again, repeated := put(w, nil, engine.Dedup{ID: "d"}); !repeated || again != id {
			t.Errorf("just within the window: %q, repeated %v; want %q again", again, repeated, id)
		}
		time.Sleep(time.Millisecond)
		later, repeated := put(w, nil, engine.Dedup{ID: "d"})
		if repeated || later == id {
			t.Errorf("after the window: %q, repeated %v; want a new schedule beside %q", later, repeated, id)
		}
	})
	inWorld(t, answers(ok), engine.Options{Limits: engine.Limits{Schedules: 1}}, func(w *world) {
		put(w, nil, engine.Dedup{ID: "d"})
		if _, _, err := w.PutScheduleDedup(w.t.Context(), schedule, engine.Dedup{ID: "e"}); posthaste.ErrorCode(err) != posthaste.CodeLimit {
			t.Errorf("a schedule too many: %v", err)
		}
		if _, repeated := put(w, nil, engine.Dedup{ID: "d"}); !repeated {
			t.Error("a repetition is refused at the limit")
		}
	})
}
