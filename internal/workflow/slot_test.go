package workflow_test

import (
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/workflow"
)

// A run that gets its id here is in a slot that this node serves, and so are its messages; one whose id
// is given is where that says.
func TestRunsAreInOwnSlots(t *testing.T) {
	own := func(_ string, slot posthaste.Slot) posthaste.Slot { return slot % 4 }
	begin := setup{flows: map[string]flow{"wf": {{run("a")}}}, options: workflow.Options{OwnSlot: own}, fault: func(v visit) fault {
		if v.at < time.Minute {
			return refuse
		}
		return noFault
	}}
	inWorld(t, begin, func(w *world) {
		given := w.trigger("wf", "r", retries(0))
		if got, want := given.MessageID.Slot(), posthaste.SlotOf("r"); got != want {
			t.Errorf("the first message of r is in slot %d, want %d", got, want)
		}
		ids := []string{w.trigger("wf", "", retries(0)).Run.ID}
		w.pass(time.Hour)
		for _, failed := range []string{"r", ids[0]} {
			ids = append(ids, w.restart(failed, false))
		}
		w.pass(time.Minute)
		for i, id := range ids {
			run := w.run(id)
			if got := posthaste.SlotOf(id); got >= 4 || run.Position.Slot() != got || run.FirstID.Slot() != got {
				t.Errorf("run %d is in slot %d, its position in %d, its first message in %d; want the same, below 4", i, got, run.Position.Slot(), run.FirstID.Slot())
			}
		}
	})
}
