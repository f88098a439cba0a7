package engine_test

import (
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/engine"
)

// What may be in any slot is in one that this node serves: by its host, if all are the same to it.
func TestSlots(t *testing.T) {
	queue := posthaste.Lane{Kind: posthaste.LaneQueue, Name: "queue"}.Slot()
	for name, own := range map[string]posthaste.OwnSlot{
		"is alone":   nil,
		"serves odd": func(_ string, slot posthaste.Slot) posthaste.Slot { return slot | 1 },
	} {
		t.Run(name, func(t *testing.T) {
			want := func(host string) posthaste.Slot {
				slot := posthaste.Lane{Kind: posthaste.LaneHost, Name: host}.Slot()
				if own != nil {
					slot = own(user, slot)
				}
				return slot
			}
			box := &mailbox{answer: func(int) posthaste.Outcome { return ok }}
			inWorld(t, box, engine.Options{OwnSlot: own}, func(w *world) {
				settings := posthaste.Settings{Callback: &posthaste.Callback{URL: "http://back.example"}}
				for _, host := range []string{"a.example", "b.example", "c.example"} {
					id := w.publish(engine.Publication{Destination: "http://" + host + "/x", Settings: settings})
					if got, want := id.Slot(), want(host); got != want {
						t.Errorf("a message to %s is in slot %d, want %d", host, got, want)
					}
				}
				if got := w.publish(engine.Publication{Queue: "queue"}).Slot(); got != queue {
					t.Errorf("a message of the queue is in slot %d, want %d", got, queue)
				}
				w.pass(time.Minute)
				if len(box.callbacks) != 3 {
					t.Errorf("%d callbacks were delivered, want 3", len(box.callbacks))
				}
				for _, m := range box.callbacks {
					if got, want := m.ID.Slot(), want("back.example"); got != want {
						t.Errorf("a callback is in slot %d, want %d", got, want)
					}
				}
			})
		})
	}
}
