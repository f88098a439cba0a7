package engine_test

import (
	"context"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/engine"
)

// TestTickSpeaksTheDialectOfItsSchedule checks that what a schedule publishes has
// the header names of whoever made it (contract, decision 1).
func TestTickSpeaksTheDialectOfItsSchedule(t *testing.T) {
	var ticked *posthaste.Message
	destination := destinations{func(_ context.Context, m *posthaste.Message, _ int) posthaste.Outcome {
		ticked = m
		return ok
	}}
	inWorld(t, destination, engine.Options{}, func(w *world) {
		schedule := posthaste.Schedule{User: user, Cron: "* * * * *", Destination: "http://a.example/"}
		schedule.Dialect = posthaste.DialectService
		if _, err := w.PutSchedule(w.t.Context(), schedule); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		if ticked == nil || ticked.Dialect != posthaste.DialectService {
			t.Fatalf("the tick sent %+v, want a message of the Service family", ticked)
		}
		w.ids = append(w.ids, ticked.ID)
	})
}
