package workflow_test

import (
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/workflow"
)

// TestEndedWaits proves that the entry that ends a wait has what the log of runs tells
// of it, for the waiter is gone by then (contract, workflows 6.3).
func TestEndedWaits(t *testing.T) {
	flows := map[string]flow{
		"wf":    {{wait("a", "e", time.Minute)}, {wait("b", "e", time.Hour)}, {invoke("c", site+"child", "")}},
		"child": {},
	}
	inWorld(t, setup{flows: flows}, func(w *world) {
		w.trigger("wf", "r")
		w.pass(2 * time.Minute)
		w.notify("r", "e", "news")
		w.pass(time.Minute)
		w.wantState("r", posthaste.RunSuccess)

		firstWait := w.start.Add(latency)
		w.wantStep("r", 1, fields{
			"waitEventId": "e", "timeout": "1m0s", "waitTimeoutDeadline": float64(firstWait.Add(time.Minute).Unix()),
		})
		secondWait := firstWait.Add(time.Minute + latency)
		w.wantStep("r", 2, fields{
			"waitEventId": "e", "timeout": "1h0m0s", "waitTimeoutDeadline": float64(secondWait.Add(time.Hour).Unix()),
		})
		child := w.run("r.c")
		w.wantStep("r", 3, fields{
			"invokedWorkflowRunId": child.ID, "invokedWorkflowUrl": child.URL,
			"invokedWorkflowCreatedAt": float64(child.CreatedAt.UnixMilli()),
		})
	})
}

// TestAnswerOfCallIsDelivered has lists mustFetch, whatever their size, but not the
// answer of a call: the SDKs for TypeScript read it as JSON before they would fetch it
// (contract, workflows 3.4 and 4.5).
func TestAnswerOfCallIsDelivered(t *testing.T) {
	begin := setup{
		flows:   map[string]flow{"wf": {{call("a", site+"third", 0)}}},
		options: workflow.Options{LazyThreshold: 1},
	}
	inWorld(t, begin, func(w *world) {
		w.behave["third"] = answers(http.StatusAccepted)
		w.trigger("wf", "r")
		w.pass(time.Minute)
		w.wantState("r", posthaste.RunSuccess)
		var lengths []int
		for _, v := range w.visits {
			if v.path == "wf" {
				lengths = append(lengths, len(v.message.Body))
			}
		}
		if len(lengths) != 3 || lengths[0] != 0 || lengths[1] == 0 || lengths[2] != 0 {
			t.Errorf("the deliveries have bodies of %d bytes, want one in the middle only", lengths)
		}
	})
}

// TestNoAnswerHasNoHeader proves what is told of a delivery that nobody answered
// (contract, workflows 5.2 and decision 17).
func TestNoAnswerHasNoHeader(t *testing.T) {
	inWorld(t, setup{flows: map[string]flow{"wf": {}}}, func(w *world) {
		w.override = func(v visit) *posthaste.Outcome {
			if v.what != "start" {
				return nil
			}
			none := outcome(0)
			return &none
		}
		w.trigger("wf", "r", retries(0))
		w.pass(time.Minute)
		w.wantState("r", posthaste.RunFailed)
		if header := w.letter("r").Response.Header; len(header) > 0 {
			t.Errorf("the answer has the header %v in the DLQ, want none", header)
		}
		if told := w.told["r"]; len(told) != 1 || !reflect.DeepEqual(told[0]["header"], map[string]any{}) {
			t.Errorf("the failure function was told %v, want an empty header", told)
		}
	})
}

// TestCutAnswer has calls answered with more than is kept: the part that is kept reaches no
// run, and a call that has had an answer is not made again for it (contract, workflows 4.5
// and decision 32).
func TestCutAnswer(t *testing.T) {
	const reason = "the destination responded with the status %d and a body of more than 10 bytes, the limit of --max-response-size"
	cut := func(status int) func() *posthaste.Outcome {
		return func() *posthaste.Outcome {
			o := outcome(status)
			o.Response.Truncated = true
			return &o
		}
	}
	for name, c := range map[string]struct {
		status, told int
		calls        int
	}{
		"of a success": {200, 502, 1},
		"of a failure": {500, 500, 3},
	} {
		message := fmt.Sprintf(reason, c.status)
		t.Run(name, func(t *testing.T) {
			inWorld(t, setup{flows: map[string]flow{"wf": {{call("a", "http://third/large", 2)}}}}, func(w *world) {
				w.behave["large"] = cut(c.status)
				w.trigger("wf", "r")
				w.pass(time.Minute)
				w.wantSuccess("r", fmt.Sprintf(`%d{"error":%q,"message":%q}`, c.told, http.StatusText(c.told), message))
				if calls := len(w.visits) - 3; calls != c.calls {
					t.Errorf("the call was made %d times, want %d", calls, c.calls)
				}
			})
		})
	}
	t.Run("of a call whose failure is that of its run", func(t *testing.T) {
		s := call("a", "http://third/large", 2)
		s.keep = false
		inWorld(t, setup{flows: map[string]flow{"wf": {{s}}}}, func(w *world) {
			w.behave["large"] = cut(200)
			w.trigger("wf", "r")
			w.pass(time.Minute)
			w.wantFailure("r", 502, fmt.Sprintf(reason, 200))
		})
	})
}
