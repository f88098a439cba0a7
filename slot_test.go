package posthaste_test

import (
	"crypto/rand"
	"testing"
	"time"

	"posthaste"
)

// What must be together is in one slot, which the id of a message tells.
func TestSlots(t *testing.T) {
	run := posthaste.RunRef{ID: "wfr_1"}
	key := posthaste.FlowControl{Key: "key"}
	lane := func(kind posthaste.LaneKind, name string) posthaste.Slot {
		return posthaste.Lane{Kind: kind, Name: name}.Slot()
	}
	for name, test := range map[string]struct {
		m    posthaste.Message
		want posthaste.Slot // of a node that serves the slots below 2
	}{
		"to a host":           {posthaste.Message{}, lane(posthaste.LaneHost, "host.example") % 2},
		"of a run":            {posthaste.Message{Run: &posthaste.RunLink{RunRef: run}}, run.Slot()},
		"under a key":         {posthaste.Message{Settings: posthaste.Settings{FlowControl: key}}, lane(posthaste.LaneFlow, "key")},
		"of a run, under one": {posthaste.Message{Run: &posthaste.RunLink{RunRef: run}, Settings: posthaste.Settings{FlowControl: key}}, lane(posthaste.LaneFlow, "key")},
		"in a queue":          {posthaste.Message{Queue: "queue", Settings: posthaste.Settings{FlowControl: key}}, lane(posthaste.LaneQueue, "queue")},
	} {
		id, err := posthaste.NewMessageID(time.Now(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		test.m.ID, test.m.URL = id, "http://host.example/path"
		test.m.SetSlot(func(_ string, slot posthaste.Slot) posthaste.Slot { return slot % 2 })
		if got := test.m.ID.Slot(); got != test.want || got >= posthaste.Slots || !test.m.ID.CreatedAt().Equal(id.CreatedAt()) {
			t.Errorf("a message %s is in slot %d, want %d", name, got, test.want)
		}
	}
}
