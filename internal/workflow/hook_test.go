package workflow_test

import (
	"sync/atomic"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/workflow"
)

// hook makes a webhook whose calls are an event.
func hook(name, event string) step {
	return step{name: name, kind: "CreateWebhook", value: `{"webhookUrl":"http://here","eventId":"` + event + `"}`}
}

// TestHook calls the webhook of a run and whatever else a stranger may guess: only what
// the run has made is heard, and nothing tells which runs there are (contract, workflows
// 4.7 and D 19).
func TestHook(t *testing.T) {
	flows := map[string]flow{"wf": {{hook("hook", "evt")}, {wait("plain", "plain", time.Hour)}, {wait("hooked", "evt", time.Hour)}}}
	inWorld(t, setup{flows: flows}, func(w *world) {
		w.trigger("wf", "r")
		w.at(time.Second)
		for name, h := range map[string]workflow.Hook{
			"an event it waits for": {User: user, RunID: "r", EventID: "plain"},
			"any other event":       {User: user, RunID: "r", EventID: "other"},
			"another run":           {User: user, RunID: "never", EventID: "evt"},
			"another user":          {User: "bob", RunID: "r", EventID: "evt"},
		} {
			wantCode(t, "find "+name, w.FindHook(w.t.Context(), h), posthaste.CodeNotFound)
			wantCode(t, "call "+name, w.CallHook(w.t.Context(), h, []byte("a guess")), posthaste.CodeNotFound)
		}
		made := workflow.Hook{User: user, RunID: "r", EventID: "evt"}
		if err := w.FindHook(w.t.Context(), made); err != nil {
			t.Errorf("find the webhook: %v", err)
		}
		if err := w.CallHook(w.t.Context(), made, []byte("called")); err != nil {
			t.Errorf("call the webhook: %v", err)
		}
		w.pass(time.Second)
		w.notify("r", "plain", "told")
		w.pass(time.Second)
		w.wantSuccess("r", `{"webhookUrl":"http://here","eventId":"evt"} told called`)
		wantCode(t, "find one of a run that has ended", w.FindHook(w.t.Context(), made), posthaste.CodeNotFound)
	})
}

// TestHookOfWaiter calls a webhook that is not remembered and that its run waits for.
func TestHookOfWaiter(t *testing.T) {
	inWorld(t, setup{}, func(w *world) {
		w.replaysNothing()
		w.trigger("wf", "r")
		_, err := w.Wait(w.t.Context(), user, workflow.WaitRequest{
			Run: workflow.RunID{ID: "r"}, EventID: "evt", Step: []byte(`{"stepId":1,"stepType":"WaitForWebhook"}`),
			Shown: posthaste.WaiterShown{URL: site + "wf"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.CallHook(w.t.Context(), workflow.Hook{User: user, RunID: "r", EventID: "evt"}, nil); err != nil {
			t.Error(err)
		}
	})
}

// TestHookAfterResume resumes a run that had given its webhook away, which fails once more
// and is resumed again: the URL of the first run leads to the run that goes on, and to
// nobody while none does (contract, decision 33).
func TestHookAfterResume(t *testing.T) {
	var repaired atomic.Bool
	flows := map[string]flow{"wf": {{hook("hook", "evt")}, {run("a")}, {wait("hooked", "evt", time.Hour)}}}
	inWorld(t, setup{flows: flows, fault: func(v visit) fault {
		if v.what == "a" && !repaired.Load() {
			return refuse
		}
		return noFault
	}}, func(w *world) {
		given := workflow.Hook{User: user, RunID: "r", EventID: "evt"}
		w.trigger("wf", "r", retries(0))
		w.pass(time.Second)
		wantCode(t, "call while the run lies in the DLQ", w.CallHook(w.t.Context(), given, nil), posthaste.CodeNotFound)
		again := w.restart("r", true)
		w.pass(time.Second)
		w.wantState(again, posthaste.RunFailed)
		wantCode(t, "find while both lie in the DLQ", w.FindHook(w.t.Context(), given), posthaste.CodeNotFound)
		repaired.Store(true)
		id := w.restart(again, true)
		w.pass(time.Second)
		if err := w.FindHook(w.t.Context(), given); err != nil {
			t.Errorf("find the webhook after the resume: %v", err)
		}
		wantCode(t, "call an event that it has not made",
			w.CallHook(w.t.Context(), workflow.Hook{User: user, RunID: "r", EventID: "other"}, nil), posthaste.CodeNotFound)
		if err := w.CallHook(w.t.Context(), given, []byte("called")); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		w.wantSuccess(id, `{"webhookUrl":"http://here","eventId":"evt"} <a> called`)
	})
}

// TestHookAfterRestart restarts a run that had made a webhook: the new run begins from its
// payload and makes its own.
func TestHookAfterRestart(t *testing.T) {
	flows := map[string]flow{"wf": {{hook("hook", "evt")}, {wait("hooked", "evt", time.Hour)}}}
	failing := true
	inWorld(t, setup{flows: flows, fault: func(v visit) fault {
		if v.what == "hook" && failing {
			return refuse
		}
		return noFault
	}}, func(w *world) {
		w.trigger("wf", "r", retries(0))
		w.pass(time.Second)
		failing = false
		w.restart("r", false)
		w.pass(time.Second)
		given := workflow.Hook{User: user, RunID: "r", EventID: "evt"}
		wantCode(t, "find that of the failed run", w.FindHook(w.t.Context(), given), posthaste.CodeNotFound)
		wantCode(t, "call that of the failed run", w.CallHook(w.t.Context(), given, nil), posthaste.CodeNotFound)
	})
}

// TestEventsAfterResume tells a run of events that it has not waited for when it fails.
// The run that resumes it has them, in their order, and is told what is meant for the
// failed one; a run that restarts it is not (contract, decision 33).
func TestEventsAfterResume(t *testing.T) {
	flows := map[string]flow{"wf": {{sleep("s", time.Minute)}, {run("a")}, {wait("first", "e", time.Hour)}, {wait("second", "e", time.Hour)}, {wait("third", "e", time.Hour)}}}
	for name, c := range map[string]struct {
		broken  string
		resume  bool
		success string // "": the run waits
	}{
		"resumed":                {"a", true, "slept <a> one two three"},
		"resumed from the start": {"start", true, "slept <a> one two three"},
		"restarted":              {"a", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			failing := true
			begin := setup{flows: flows, fault: func(v visit) fault {
				if v.what == c.broken && failing {
					return refuse
				}
				return noFault
			}}
			inWorld(t, begin, func(w *world) {
				w.trigger("wf", "r", retries(1))
				w.notify("r", "e", "one")
				w.notify("r", "e", "two")
				w.pass(2 * time.Minute)
				w.wantState("r", posthaste.RunFailed)
				failing = false
				id := w.restart("r", c.resume)
				if kept := w.run("r").BufferedBytes; kept != 0 {
					t.Errorf("the failed run keeps %d bytes of events", kept)
				}
				_, err := w.NotifyRun(w.t.Context(), user, "r", "e", []byte("three"))
				w.pass(5 * time.Minute)
				if c.success == "" {
					wantCode(t, "notify the failed run", err, posthaste.CodeNotFound)
					w.wantState(id, posthaste.RunStarted)
					return
				}
				if err != nil {
					t.Errorf("notify the run that was resumed: %v", err)
				}
				w.wantSuccess(id, c.success)
			})
		})
	}
}

// TestStrangersLeaveRoom has strangers call a webhook for which its run does not wait yet,
// until they are refused: who has a token is not.
func TestStrangersLeaveRoom(t *testing.T) {
	const half = 8 << 20
	for name, size := range map[string]int{"many small ones": 1 << 20, "one large one": half} {
		t.Run(name, func(t *testing.T) {
			flows := map[string]flow{"wf": {{hook("hook", "evt")}, {wait("plain", "plain", time.Hour)}, {wait("hooked", "evt", time.Hour)}}}
			inWorld(t, setup{flows: flows}, func(w *world) {
				w.trigger("wf", "r")
				w.at(time.Second)
				call := func(size int) error {
					return w.CallHook(w.t.Context(), workflow.Hook{User: user, RunID: "r", EventID: "evt"}, make([]byte, size))
				}
				err := call(size)
				for calls := 1; err == nil && calls <= half/size; calls++ {
					err = call(size)
				}
				wantCode(t, "one too many", err, posthaste.CodeRateLimited)
				if kept := w.run("r").BufferedBytes; kept > half {
					t.Errorf("%d bytes of strangers are kept, want %d at most", kept, half)
				}
				if _, err := w.NotifyRun(w.t.Context(), user, "r", "other", make([]byte, half/2)); err != nil {
					t.Errorf("who has a token: %v", err)
				}
			})
		})
	}
}

// TestKeptEventsAreBounded gives a run events that it does not wait for, until it is
// asked to take some first.
func TestKeptEventsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing happens at the same time, and much is large")
	}
	const size, most = 4 << 20, 3 // what follows the third is more than 16 MiB, for each counts a little more
	inWorld(t, setup{}, func(w *world) {
		w.replaysNothing()
		w.trigger("wf", "r")
		keep := func(size int) error {
			_, err := w.NotifyRun(w.t.Context(), user, "r", "e", make([]byte, size))
			return err
		}
		take := func(step string) {
			_, err := w.Wait(w.t.Context(), user, workflow.WaitRequest{
				Run: workflow.RunID{ID: "r"}, EventID: "e", Step: []byte(`{"stepId":` + step + `,"stepType":"Wait"}`),
				Shown: posthaste.WaiterShown{URL: site + "wf"},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for range most {
			if err := keep(size); err != nil {
				t.Fatal(err)
			}
		}
		wantCode(t, "one too many", keep(size), posthaste.CodeRateLimited)
		take("1")
		if err := keep(size); err != nil {
			t.Errorf("after one was taken: %v", err)
		}
		for _, step := range []string{"2", "3", "4"} {
			take(step)
		}
		if kept := w.run("r").BufferedBytes; kept != 0 {
			t.Errorf("%d bytes are kept after all were taken", kept)
		}
		if err := keep(5 * size); err != nil {
			t.Errorf("a large one alone: %v", err)
		}
	})
}
