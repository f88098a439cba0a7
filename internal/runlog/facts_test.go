package runlog_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/runlog"
	"posthaste/internal/store"
)

// The steps of the tests.
const (
	first  = `{"stepId":1,"stepName":"first","stepType":"Run","out":"\"one\"","concurrent":1}`
	second = `{"stepId":2,"stepName":"second","stepType":"Run","concurrent":1}`
	sleep  = `{"stepId":1,"stepName":"nap","stepType":"SleepFor","sleepFor":7200,"concurrent":1}`
	called = `{"stepId":1,"stepName":"ask","stepType":"Call","out":"{}","concurrent":1}`
	waits  = `{"stepId":1,"stepName":"hold","stepType":"Wait","concurrent":1}`
	woken  = `{"stepId":1,"stepName":"hold","stepType":"Wait","concurrent":1,"waitEventId":"go","waitTimeout":false,"out":"aGk="}`
	late   = `{"stepId":1,"stepName":"hold","stepType":"Wait","concurrent":1,"waitEventId":"go","timeout":"1h","waitTimeoutDeadline":1700003600,"waitTimeout":true}`
	invoke = `{"stepId":1,"stepName":"child","stepType":"Invoke","concurrent":1}`
	child  = `{"stepId":1,"stepName":"child","stepType":"Invoke","concurrent":1,"out":"{\"isFailed\":true,\"isCanceled\":false}"}`

	planA   = `{"stepId":0,"stepName":"a","stepType":"Run","concurrent":2,"targetStep":1}`
	planB   = `{"stepId":0,"stepName":"b","stepType":"Run","concurrent":2,"targetStep":2}`
	planNap = `{"stepId":0,"stepName":"b","stepType":"SleepFor","sleepFor":7200,"concurrent":2,"targetStep":2}`
	resultA = `{"stepId":1,"stepName":"a","stepType":"Run","out":"1","concurrent":2}`
	resultB = `{"stepId":2,"stepName":"b","stepType":"Run","out":"2","concurrent":2}`
	waitB   = `{"stepId":2,"stepName":"b","stepType":"Wait","concurrent":2}`
	planC   = `{"stepId":0,"stepName":"c","stepType":"Run","concurrent":2,"targetStep":3}`
	planD   = `{"stepId":0,"stepName":"d","stepType":"Run","concurrent":2,"targetStep":4}`
)

// groupTest is a run, and how it is shown.
type groupTest struct {
	name string
	draw func(s *sketch)
	want string
}

// initial is how the payload of a run is shown when it was delivered.
const initial = "sequential: init Initial STEP_SUCCESS\n"

// Contract, workflows 6.3: groups, and what is pinned about them.
func TestGroups(t *testing.T) {
	for _, test := range slices.Concat(firstDeliveries, sequences, sleeps, calls, waitings, branches, retold) {
		t.Run(test.name, func(t *testing.T) {
			s := newSketch()
			test.draw(s)
			if diff := cmp.Diff(test.want, outline(s.shown().Groups)); diff != "" {
				t.Errorf("groups differ (-want +got):\n%s", diff)
			}
		})
	}
}

// firstDeliveries are of a run that has the payload alone.
var firstDeliveries = []groupTest{
	{"the initial payload is there as soon as the run is", func(s *sketch) {
		s.stands[0].State = posthaste.StateCreated
	}, initial + "next: STEP_PROGRESS\n"},
	{"a delayed run says when it begins", func(s *sketch) {
		sleepUntil(s.stands[0], s.Now.Add(time.Hour))
	}, initial + "next: STEP_PROGRESS next\n"},
	{"a workflow that took it in and did nothing", func(*sketch) {}, initial},
	{"the first attempt failed", func(s *sketch) {
		s.retries(s.stands[0], 500, 503)
	}, initial + "next: STEP_RETRY 500 503 next\n"},
	{"no workflow at all: two groups, one step, one error", func(s *sketch) {
		s.fail(s.stands[0], 200)
	}, initial + "next: STEP_FAILED 200\n"},
	{"cancelled before it was delivered", func(s *sketch) {
		s.cancel(s.stands[0])
	}, initial + "next: STEP_CANCELED\n"},
	{"cancelled before it was due", func(s *sketch) {
		sleepUntil(s.stands[0], s.Now.Add(time.Hour))
		s.cancel(s.stands[0])
	}, initial + "next: STEP_CANCELED\n"},
	{"cancelled between attempts keeps the errors", func(s *sketch) {
		s.retries(s.stands[0], 500)
		s.cancel(s.stands[0])
	}, initial + "next: STEP_CANCELED 500\n"},
}

// sequences are of a run that takes one step after another.
var sequences = []groupTest{
	{"a step and the next one", func(s *sketch) {
		s.step(first).State = posthaste.StateActive
	}, initial + "sequential: 1 first Run STEP_SUCCESS\nnext: STEP_PROGRESS\n"},
	{"the endpoint has not answered yet and the next step is there", func(s *sketch) {
		s.stands[0].State = posthaste.StateActive
		s.step(first).State = posthaste.StateActive
	}, initial + "sequential: 1 first Run STEP_SUCCESS\nnext: STEP_PROGRESS\n"},
	{"a successful run has no next group", func(s *sketch) {
		s.step(first).State = posthaste.StateActive
		s.end(posthaste.RunSuccess)
	}, initial + "sequential: 1 first Run STEP_SUCCESS\n"},
	{"a step that failed the run", func(s *sketch) {
		s.step(first)
		s.fail(s.step(second), 500, 489)
	}, initial + "sequential: 1 first Run STEP_SUCCESS\nsequential: 2 second Run STEP_SUCCESS\nnext: STEP_FAILED 500 489\n"},
	{"a delivery that failed although its step had been taken (D 56)", func(s *sketch) {
		s.step(second).State = posthaste.StateCancelled
		s.fail(s.stands[0], 500)
	}, initial + "sequential: 2 second Run STEP_SUCCESS\nnext: STEP_FAILED 500\n"},
	{"an answer that was lost although the step had been taken", func(s *sketch) {
		s.step(second)
		s.retries(s.stands[0], 500)
	}, initial + "sequential: 2 second Run STEP_SUCCESS\nnext: STEP_RETRY 500 next\n"},
	{"an entry that is no step", func(s *sketch) {
		s.step("what?")
	}, initial + "sequential: STEP_SUCCESS\n"},
	{"an entry of a kind that SDKs pass over (D 28)", func(s *sketch) {
		s.entry("stepConfig", "{}")
	}, initial},
}

// sleeps are of a run that sleeps.
var sleeps = []groupTest{
	{"asleep", func(s *sketch) {
		sleepUntil(s.step(sleep), s.Now.Add(time.Minute))
	}, initial + "sequential: 1 nap SleepFor STEP_PROGRESS next\n"},
	{"awake, and to be delivered", func(s *sketch) {
		sleepUntil(s.step(sleep), s.Now)
	}, initial + "sequential: 1 nap SleepFor STEP_SUCCESS\nnext: STEP_PROGRESS\n"},
	{"cancelled asleep", func(s *sketch) {
		st := s.step(sleep)
		sleepUntil(st, s.Now.Add(time.Minute))
		s.cancel(st)
	}, initial + "sequential: 1 nap SleepFor STEP_CANCELED\n"},
	{"cancelled awake", func(s *sketch) {
		st := s.step(sleep)
		sleepUntil(st, noon.Add(time.Minute))
		s.cancel(st)
	}, initial + "sequential: 1 nap SleepFor STEP_SUCCESS\nnext: STEP_CANCELED\n"},
}

// calls are of a run that calls.
var calls = []groupTest{
	{"a call", func(s *sketch) {
		s.call("1", "ask", 1).State = posthaste.StateActive
	}, initial + "sequential: 1 ask Call STEP_PROGRESS\n"},
	{"a call that is retried", func(s *sketch) {
		s.retries(s.call("1", "ask", 1), 500)
	}, initial + "sequential: 1 ask Call STEP_RETRY 500 next\n"},
	{"a call that is answered", func(s *sketch) {
		s.answer(s.call("1", "ask", 1)).State = posthaste.StateActive
	}, initial + "sequential: 1 ask Call STEP_PROGRESS\n"},
	{"a call whose attempts all failed is answered too", func(s *sketch) {
		call := s.call("1", "ask", 1)
		s.fails(call, 500)
		call.State = posthaste.StateFailed
		s.answer(call)
	}, initial + "sequential: 1 ask Call STEP_PROGRESS\n"},
	{"a workflow that does not take the answer of a call", func(s *sketch) {
		s.retries(s.answer(s.call("1", "ask", 1)), 500)
	}, initial + "sequential: 1 ask Call STEP_RETRY 500 next\n"},
	{"a workflow that never took the answer of a call", func(s *sketch) {
		s.fail(s.answer(s.call("1", "ask", 1)), 500)
	}, initial + "sequential: 1 ask Call STEP_FAILED 500\n"},
	{"a call that failed the run", func(s *sketch) {
		s.fail(s.call("1", "ask", 1), 404)
	}, initial + "sequential: 1 ask Call STEP_FAILED 404\n"},
	{"a call that was cancelled", func(s *sketch) {
		s.cancel(s.call("1", "ask", 1))
	}, initial + "sequential: 1 ask Call STEP_CANCELED\n"},
	{"a call with its result", func(s *sketch) {
		s.answer(s.call("1", "ask", 1))
		s.step(called).State = posthaste.StateCreated
	}, initial + "sequential: 1 ask Call STEP_SUCCESS\nnext: STEP_PROGRESS\n"},
}

// waitings are of a run that waits.
var waitings = []groupTest{
	{"waiting for an event, the last group is one step (and the third)", func(s *sketch) {
		s.step(second)
		s.wait(posthaste.EventTopic("go"), waits)
	}, initial + "sequential: 2 second Run STEP_SUCCESS\nsequential: 1 hold Wait STEP_PROGRESS\n"},
	{"waiting before the endpoint has answered", func(s *sketch) {
		s.stands[0].State = posthaste.StateActive
		s.wait(posthaste.EventTopic("go"), waits)
	}, initial + "sequential: 1 hold Wait STEP_PROGRESS\n"},
	{"notified", func(s *sketch) {
		s.step(woken).State = posthaste.StateCreated
	}, initial + "sequential: 1 hold Wait STEP_SUCCESS\nnext: STEP_PROGRESS\n"},
	{"a wait that ends while it is read", func(s *sketch) {
		s.wait(posthaste.EventTopic("go"), waits)
		s.step(woken)
	}, initial + "sequential: 1 hold Wait STEP_SUCCESS\n"},
	{"a wait that was passed by", func(s *sketch) {
		s.wait(posthaste.EventTopic("go"), waits)
		s.step(second).State = posthaste.StateActive
	}, initial + "sequential: 1 hold Wait STEP_PROGRESS\nsequential: 2 second Run STEP_SUCCESS\nnext: STEP_PROGRESS\n"},
	{"waiting for a run", func(s *sketch) {
		s.wait(posthaste.RunTopic(s.Run.RunRef), invoke)
	}, initial + "sequential: 1 child Invoke STEP_PROGRESS\n"},
}

// branches are of a run that takes steps side by side.
var branches = []groupTest{
	{"a group that is planned", func(s *sketch) {
		s.step(planA).State = posthaste.StateCreated
		s.step(planB).State = posthaste.StateActive
	}, initial + "parallel: 1 a Run STEP_PROGRESS | 2 b Run STEP_PROGRESS\n"},
	{"a branch with a result", func(s *sketch) {
		s.step(planA)
		s.step(planB)
		s.step(resultB).State = posthaste.StateActive
	}, initial + "parallel: 1 a Run STEP_PROGRESS | 2 b Run STEP_SUCCESS\n"},
	{"a branch that is retried, and a result that is not taken", func(s *sketch) {
		s.retries(s.step(planA), 500)
		s.step(planB)
		s.retries(s.step(resultB), 503)
	}, initial + "parallel: 1 a Run STEP_RETRY 500 next | 2 b Run STEP_SUCCESS\nnext: STEP_RETRY 503 next\n"},
	{"a group that is complete", func(s *sketch) {
		s.step(planA)
		s.step(planB)
		s.step(resultB)
		s.step(resultA).State = posthaste.StateActive
	}, initial + "parallel: 1 a Run STEP_SUCCESS | 2 b Run STEP_SUCCESS\nnext: STEP_PROGRESS\n"},
	{"a result that was overtaken is not the next step", func(s *sketch) {
		s.step(planA)
		s.step(planB)
		s.step(resultB).State = posthaste.StateActive
		s.step(resultA)
	}, initial + "parallel: 1 a Run STEP_SUCCESS | 2 b Run STEP_SUCCESS\n"},
	{"a branch that failed the run, and its sibling (D 46)", func(s *sketch) {
		s.fail(s.step(planA), 489)
		s.step(planB).State = posthaste.StateCancelled
	}, initial + "parallel: 1 a Run STEP_FAILED 489 | 2 b Run STEP_CANCELED\n"},
	{"a branch that is never heard of again", func(s *sketch) {
		s.fail(s.step(planA), 489)
		s.step(planB)
	}, initial + "parallel: 1 a Run STEP_FAILED 489 | 2 b Run STEP_CANCELED\n"},
	{"a branch that failed the run after its result (D 56)", func(s *sketch) {
		s.fail(s.step(planA), 500)
		s.step(planB)
		s.step(resultA).State = posthaste.StateCancelled
	}, initial + "parallel: 1 a Run STEP_FAILED 500 | 2 b Run STEP_CANCELED\n"},
	{"a branch asleep", func(s *sketch) {
		s.step(planA)
		sleepUntil(s.step(planNap), s.Now.Add(time.Minute))
		s.step(resultA)
	}, initial + "parallel: 1 a Run STEP_SUCCESS | 2 b SleepFor STEP_PROGRESS next\n"},
	{"a branch that calls", func(s *sketch) {
		s.step(planA)
		s.step(planB)
		s.answer(s.call("2", "b", 2)).State = posthaste.StateActive
	}, initial + "parallel: 1 a Run STEP_PROGRESS | 2 b Call STEP_PROGRESS\n"},
	{"a branch that waits", func(s *sketch) {
		s.step(planA)
		s.step(planB)
		s.wait(posthaste.EventTopic("go"), waitB)
	}, initial + "parallel: 1 a Run STEP_PROGRESS | 2 b Wait STEP_PROGRESS\n"},
	{"a child that ended after its parent had failed is recorded", func(s *sketch) {
		s.fail(s.step(planB), 489)
		s.step(`{"stepId":0,"stepName":"child","stepType":"Invoke","concurrent":2,"targetStep":1}`)
		s.step(child)
		s.stands = s.stands[:3] // there is no message of the last entry
	}, initial + "parallel: 2 b Run STEP_FAILED 489 | 1 child Invoke STEP_SUCCESS\n"},
	{"a child that goes on after its parent has failed", func(s *sketch) {
		s.fail(s.step(planB), 489)
		s.step(`{"stepId":0,"stepName":"child","stepType":"Invoke","concurrent":2,"targetStep":1}`)
		s.wait(posthaste.RunTopic(s.Run.RunRef), `{"stepId":1,"stepName":"child","stepType":"Invoke","concurrent":2}`)
	}, initial + "parallel: 2 b Run STEP_FAILED 489 | 1 child Invoke STEP_PROGRESS\n"},
	{"two groups in a row", func(s *sketch) {
		for _, step := range []string{planA, planB, resultA, resultB, planC, planD} {
			s.step(step)
		}
	}, initial + "parallel: 1 a Run STEP_SUCCESS | 2 b Run STEP_SUCCESS\nparallel: 3 c Run STEP_PROGRESS | 4 d Run STEP_PROGRESS\n"},
	{"results without plans", func(s *sketch) {
		s.step(resultB)
		s.step(resultA)
	}, initial + "parallel: 2 b Run STEP_SUCCESS | 1 a Run STEP_SUCCESS\n"},
}

// retold are of a run that was delivered again, resumed or half forgotten.
var retold = []groupTest{
	{"the first entry is delivered once more (2.4)", func(s *sketch) {
		again := *s.stands[0]
		message := *again.Message
		message.ID, again.Message = messageID(200), &message
		s.stands = append(s.stands, &again)
		s.retries(&again, 500)
		s.First = message.ID
	}, initial + "next: STEP_RETRY 500 next\n"},
	{"entries that were taken over say nothing about this run (7.4)", func(s *sketch) {
		st := s.step(first)
		s.step(second).State = posthaste.StateCreated
		other := posthaste.RunRef{ID: "wfr_0", Position: 1}
		for _, old := range []*posthaste.Message{s.stands[0].Message, st.Message} {
			old.Run = &posthaste.RunLink{RunRef: other, CallType: posthaste.CallStep}
		}
		st.State = posthaste.StateFailed
		s.stands[0].State = posthaste.StateCancelled
	}, initial + "sequential: 1 first Run STEP_SUCCESS\nsequential: 2 second Run STEP_SUCCESS\nnext: STEP_PROGRESS\n"},
	{"the answer of a call that an earlier run made (7.4)", func(s *sketch) {
		st := s.answer(s.call("1", "ask", 1))
		st.Message.Header = s.stands[1].Message.Callback.Settings.Header
		st.State = posthaste.StateCreated
		s.Entries = append(s.Entries[:1], s.Entries[2])
	}, initial + "sequential: 1 ask Call STEP_PROGRESS\n"},
	{"messages that are forgotten", func(s *sketch) {
		s.step(first)
		s.stands = nil
		s.end(posthaste.RunCancelled)
	}, initial + "sequential: 1 first Run STEP_SUCCESS\n"},
}

// Contract, workflows 6.3: the fields of a step, in the types that SDKs decode.
func TestStepFields(t *testing.T) {
	created := func(n int) int64 { return messageID(n).CreatedAt().UnixMilli() }
	tests := []struct {
		name string
		draw func(s *sketch)
		want string // of the last step
	}{
		{"initial payload", func(s *sketch) {
			s.Run.Header = http.Header{"Content-Type": {"text/plain"}, "Upstash-Workflow-Sdk-Version": {"1"}}
			s.Run.RetryDelay = "1000"
		}, fmt.Sprintf(`{"stepName":"init","stepType":"Initial","callType":"step","concurrent":1,"createdAt":%d,"messageId":"%s",
			"headers":{"Content-Type":["text/plain"],"Upstash-Workflow-Sdk-Version":["1"]},"out":"payload","retries":3,"retryDelay":"1000","state":"STEP_SUCCESS"}`,
			created(1), messageID(1))},
		{"next step", func(s *sketch) {
			s.stands[0].Message.RetryDelay = "1000"
			s.fail(s.stands[0], 500)
			s.Errors[s.stands[0].Message.ID][0].Response.Header.Set("Upstash-Error-Step-Name", "charge")
		}, fmt.Sprintf(`{"messageId":"%s","state":"STEP_FAILED","stepName":"charge","retries":3,"retryDelay":"1000",
			"errors":[{"error":"500 Internal Server Error","body":"no","headers":{"X-Why":["test"],"Upstash-Error-Step-Name":["charge"]},"status":500,"time":%d}]}`,
			messageID(1), noon.Add(time.Minute).UnixMilli())},
		{"result", func(s *sketch) {
			none := 0
			st := s.step(first)
			st.Message.Header, st.Message.Retries = http.Header{"X-User": {"v"}}, &none
		}, fmt.Sprintf(`{"stepId":1,"stepName":"first","stepType":"Run","callType":"step","concurrent":1,"createdAt":%d,"messageId":"%s",
			"headers":{"X-User":["v"]},"out":"\"one\"","retries":0,"state":"STEP_SUCCESS"}`, created(2), messageID(2))},
		{"result of an SDK that writes all fields", func(s *sketch) {
			s.step(`{"method":"POST","stepId":1,"stepName":"s","stepType":"Run","out":{"a":[1]},"sleepFor":null,"sleepUntil":null,"concurrent":1,"targetStep":null,"callUrl":null}`)
		}, fmt.Sprintf(`{"stepId":1,"stepName":"s","stepType":"Run","callType":"step","concurrent":1,"createdAt":%d,"messageId":"%s",
			"out":"{\"a\":[1]}","retries":3,"state":"STEP_SUCCESS"}`, created(2), messageID(2))},
		{"result of an SDK that does not say that it is alone", func(s *sketch) {
			s.step(`{"stepId":1,"stepName":"s","stepType":"Run"}`)
		}, fmt.Sprintf(`{"stepId":1,"stepName":"s","stepType":"Run","callType":"step","concurrent":1,"createdAt":%d,"messageId":"%s",
			"retries":3,"state":"STEP_SUCCESS"}`, created(2), messageID(2))},
		{"sleep of a text", func(s *sketch) {
			s.step(`{"stepId":1,"stepName":"s","stepType":"SleepFor","sleepFor":"1m30s","concurrent":1}`)
		}, fmt.Sprintf(`{"stepId":1,"stepName":"s","stepType":"SleepFor","callType":"step","concurrent":1,"createdAt":%d,"messageId":"%s",
			"sleepFor":90,"retries":3,"state":"STEP_SUCCESS"}`, created(2), messageID(2))},
		{"sleep until a fraction", func(s *sketch) {
			sleepUntil(s.step(`{"stepId":1,"stepName":"s","stepType":"SleepUntil","sleepUntil":1735000000.5,"concurrent":1}`), s.Now.Add(time.Hour))
		}, fmt.Sprintf(`{"stepId":1,"stepName":"s","stepType":"SleepUntil","callType":"step","concurrent":1,"createdAt":%d,"messageId":"%s",
			"sleepUntil":1735000000,"nextDeliveryTime":%d,"retries":3,"state":"STEP_PROGRESS"}`,
			created(2), messageID(2), noon.Add(2*time.Hour).UnixMilli())},
		{"plan", func(s *sketch) { s.step(planB) },
			fmt.Sprintf(`{"stepId":2,"targetStep":2,"stepName":"b","stepType":"Run","callType":"step","concurrent":2,"createdAt":%d,"messageId":"%s",
			"retries":3,"state":"STEP_PROGRESS"}`, created(2), messageID(2))},
		{"call", func(s *sketch) {
			one := 1
			st := s.call("1", "ask", 1)
			st.Message.Header, st.Message.Retries, st.Message.RetryDelay = http.Header{"Content-Type": {"text/plain"}}, &one, "10"
			st.State = posthaste.StateActive
		}, fmt.Sprintf(`{"stepId":1,"stepName":"ask","stepType":"Call","callType":"toCallback","concurrent":1,"createdAt":%d,"messageId":"%s",
			"callUrl":"https://third.example/x","callMethod":"PUT","callHeaders":{"Content-Type":["text/plain"]},"callBody":"asked",
			"headers":{"Content-Type":["text/plain"]},"retries":1,"retryDelay":"10","state":"STEP_PROGRESS"}`, created(2), messageID(2))},
		{"answered call", func(s *sketch) { s.answer(s.call("1", "ask", 1)) },
			fmt.Sprintf(`{"stepId":1,"stepName":"ask","stepType":"Call","callType":"fromCallback","concurrent":1,"createdAt":%d,"messageId":"%s",
			"callUrl":"https://third.example/x","callMethod":"PUT","callBody":"asked",
			"callResponseStatus":201,"callResponseBody":"hi","callResponseHeaders":{"X-A":["b"]},"retries":3,"state":"STEP_PROGRESS"}`,
				created(2), messageID(3))},
		{"call with its result has the retries of the call", func(s *sketch) {
			one := 1
			call := s.call("1", "ask", 1)
			call.Message.Retries = &one
			s.answer(call)
			s.step(called)
		}, fmt.Sprintf(`{"stepId":1,"stepName":"ask","stepType":"Call","callType":"step","concurrent":1,"createdAt":%d,"messageId":"%s","out":"{}",
			"callUrl":"https://third.example/x","callMethod":"PUT","callBody":"asked",
			"callResponseStatus":201,"callResponseBody":"hi","callResponseHeaders":{"X-A":["b"]},"retries":1,"state":"STEP_SUCCESS"}`,
			created(4), messageID(4))},
		{"wait", func(s *sketch) {
			w := s.wait(posthaste.EventTopic("go"), waits)
			w.Timeout, w.Deadline = "1h", noon.Add(time.Hour)
			w.Delivery.Header = http.Header{"X-User": {"v"}}
		}, fmt.Sprintf(`{"stepId":1,"stepName":"hold","stepType":"Wait","callType":"step","concurrent":1,"createdAt":%d,"messageId":"%s",
			"waitEventId":"go","waitTimeoutDuration":"1h","waitTimeoutDeadline":%d,"headers":{"X-User":["v"]},"retries":3,"state":"STEP_PROGRESS"}`,
			created(2), messageID(2), noon.Add(time.Hour).Unix())},
		{"notified wait", func(s *sketch) { s.step(woken) },
			fmt.Sprintf(`{"stepId":1,"stepName":"hold","stepType":"Wait","callType":"step","concurrent":1,"createdAt":%d,"messageId":"%s",
			"waitEventId":"go","out":"aGk=","retries":3,"state":"STEP_SUCCESS"}`, created(2), messageID(2))},
		{"wait whose time was up", func(s *sketch) { s.step(late) },
			fmt.Sprintf(`{"stepId":1,"stepName":"hold","stepType":"Wait","callType":"step","concurrent":1,"createdAt":%d,"messageId":"%s",
			"waitEventId":"go","waitTimeout":true,"waitTimeoutDuration":"1h","waitTimeoutDeadline":1700003600,"retries":3,"state":"STEP_SUCCESS"}`, created(2), messageID(2))},
		{"invoked run", func(s *sketch) {
			invoked := posthaste.RunRef{ID: "wfr_2", CreatedAt: noon.Add(time.Second), URL: "https://app.example/child"}
			s.wait(posthaste.RunTopic(invoked), invoke).Invoked = &invoked
			s.Invoked = map[int]*runlog.Invoked{1: {
				Run:     &posthaste.Run{Settings: posthaste.Settings{Header: http.Header{"X-Child": {"v"}}}},
				Payload: []byte("for the child"),
			}}
		}, fmt.Sprintf(`{"stepId":1,"stepName":"child","stepType":"Invoke","callType":"step","concurrent":1,"createdAt":%d,"messageId":"%s",
			"invokedWorkflowRunId":"wfr_2","invokedWorkflowUrl":"https://app.example/child","invokedWorkflowCreatedAt":%d,
			"invokedWorkflowRunBody":"for the child","invokedWorkflowRunHeaders":{"X-Child":["v"]},"retries":3,"state":"STEP_PROGRESS"}`,
			created(2), messageID(2), noon.Add(time.Second).UnixMilli())},
		{"invoked run that ended", func(s *sketch) {
			s.step(`{"stepId":1,"stepName":"child","stepType":"Invoke","concurrent":1,"out":"{}",
				"invokedWorkflowRunId":"wfr_2","invokedWorkflowUrl":"https://app.example/child","invokedWorkflowCreatedAt":1700000001000}`)
		}, fmt.Sprintf(`{"stepId":1,"stepName":"child","stepType":"Invoke","callType":"step","concurrent":1,"createdAt":%d,"messageId":"%s","out":"{}",
			"invokedWorkflowRunId":"wfr_2","invokedWorkflowUrl":"https://app.example/child","invokedWorkflowCreatedAt":1700000001000,
			"retries":3,"state":"STEP_SUCCESS"}`, created(2), messageID(2))},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newSketch()
			test.draw(s)
			groups := s.shown().Groups
			last := groups[len(groups)-1]
			checkJSON(t, last.Steps[len(last.Steps)-1], test.want)
		})
	}
}

// Contract, workflows 6.3 and 6.6: the fields of a run.
func TestRunFields(t *testing.T) {
	const ms = 1_700_000_000_000
	position := posthaste.FirstPosition(noon)
	other := posthaste.RunRef{ID: "wfr_0", CreatedAt: noon.Add(-time.Second), Position: 1, URL: "https://app.example/other"}
	const otherJSON = `{"workflowRunId":"wfr_0","workflowUrl":"https://app.example/other","workflowRunCreatedAt":1699999999000}`
	result := ""
	tests := []struct {
		name string
		draw func(s *sketch)
		want string // without the steps
	}{
		{"nothing that it could do without", func(*sketch) {}, `{"workflowState":"RUN_STARTED"}`},
		{"everything", func(s *sketch) {
			s.end(posthaste.RunSuccess)
			s.Run.CallerIP, s.Run.Result, s.Run.Invoker = "203.0.113.9", &result, &other
			s.Run.Labels, s.Run.FlowControl.Key = []string{"x", "y"}, "k"
		}, fmt.Sprintf(`{"workflowState":"RUN_SUCCESS","workflowRunCompletedAt":%d,"workflowRunCallerIp":"203.0.113.9",
			"workflowRunResponse":"","label":"x","labels":["x","y"],"flowControlKey":"k","invoker":%s}`, ms+59*60_000, otherJSON)},
		{"failed, and restarted since", func(s *sketch) {
			s.fail(s.stands[0], 500)
			s.Run.Successor = &other
		}, fmt.Sprintf(`{"workflowState":"RUN_FAILED","workflowRunCompletedAt":%d,"dlqId":"%[1]d-0","successor":%s}`, ms+59*60_000, otherJSON)},
		{"restarted from another", func(s *sketch) {
			s.Run.Origin = &posthaste.RunOrigin{RunRef: other, DeadLetterID: posthaste.DeadLetterID(position)}
		}, fmt.Sprintf(`{"workflowState":"RUN_STARTED","restartOf":{%s,"dlqId":"%d-0"}}`, otherJSON[1:len(otherJSON)-1], ms)},
		{"restarted from another, all of whose messages are forgotten", func(s *sketch) {
			s.Run.Origin = &posthaste.RunOrigin{RunRef: other, DeadLetterID: posthaste.DeadLetterID(position)}
			s.Run.CreatedAt, s.stands = noon.Add(time.Millisecond), nil // an id is made before its run is placed
		}, fmt.Sprintf(`{"workflowState":"RUN_STARTED","workflowRunCreatedAt":%d,"restartOf":{%s,"dlqId":"%d-0"}}`,
			ms+1, otherJSON[1:len(otherJSON)-1], ms)},
		{"resumed from another", func(s *sketch) {
			s.Run.Origin = &posthaste.RunOrigin{RunRef: other, DeadLetterID: posthaste.DeadLetterID(position)}
			s.stands[0].Message.Run = &posthaste.RunLink{RunRef: other}
			s.Run.FirstID = messageID(9)
		}, fmt.Sprintf(`{"workflowState":"RUN_STARTED","resumeOf":{%s,"dlqId":"%d-0"}}`, otherJSON[1:len(otherJSON)-1], ms)},
		{"resumed from another whose messages are forgotten", func(s *sketch) {
			s.Run.Origin = &posthaste.RunOrigin{RunRef: other, DeadLetterID: posthaste.DeadLetterID(position)}
			s.Run.CreatedAt, s.stands = noon.Add(time.Hour), nil
			s.Run.FirstID = messageID(9)
		}, fmt.Sprintf(`{"workflowState":"RUN_STARTED","workflowRunCreatedAt":%d,"resumeOf":{%s,"dlqId":"%d-0"}}`,
			ms+3_600_000, otherJSON[1:len(otherJSON)-1], ms)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newSketch()
			test.draw(s)
			shown := s.shown()
			shown.Groups = nil
			want := map[string]any{
				"workflowRunId": "wfr_1", "workflowUrl": "https://app.example/wf", "workflowRunCreatedAt": ms, "steps": nil,
			}
			if err := json.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			encoded, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			checkJSON(t, shown, string(encoded))
		})
	}
}

// Contract, workflows 6.6, D 17 and D 26: the failure callback.
func TestFailure(t *testing.T) {
	reported := func(s *sketch, state posthaste.CallbackState, answer *posthaste.Response) *store.Status {
		s.fail(s.stands[0], 500)
		callback := s.entry(posthaste.CallFailure, "report")
		s.Entries = s.Entries[:1]
		s.Run.Reported = &posthaste.RunCallback{
			MessageID: callback.Message.ID, URL: "https://app.example/failed", State: state, Response: answer,
		}
		return callback
	}
	common := fmt.Sprintf(`"messageId":"%s","url":"https://app.example/failed","maxRetries":3,"dlqId":"%d-0"`,
		messageID(2), noon.Add(59*time.Minute).UnixMilli())
	answered := common + `,"failStatus":500,"failHeaders":{"X-Why":["test"]},"failResponse":"no"`
	tests := []struct {
		name string
		draw func(s *sketch)
		want string
	}{
		{"in progress", func(s *sketch) {
			s.retries(reported(s, posthaste.CallbackInProgress, nil), 502)
		}, fmt.Sprintf(`{"state":"CALLBACK_INPROGRESS",%s,"nextDeliveryTime":%d,"errors":
			[{"error":"502 Bad Gateway","status":502,"body":"no","headers":{"X-Why":["test"]},"time":%d}]}`,
			answered, noon.Add(61*time.Minute).UnixMilli(), noon.Add(time.Minute).UnixMilli())},
		{"done", func(s *sketch) {
			reported(s, posthaste.CallbackSuccess, &posthaste.Response{Status: 200, Header: http.Header{"X-A": {"b"}}, Body: []byte(`{"result":"my error"}`)})
		}, fmt.Sprintf(`{"state":"CALLBACK_SUCCESS",%s,"responseStatus":200,"responseHeaders":{"X-A":["b"]},"responseBody":"{\"result\":\"my error\"}"}`, answered)},
		{"there was no answer to tell of", func(s *sketch) {
			reported(s, posthaste.CallbackCancelled, nil)
			s.Errors[s.First][0].Response, s.Run.FailedStatus = nil, 504
		}, fmt.Sprintf(`{"state":"CALLBACK_CANCELED",%s,"failStatus":504,"failHeaders":{},
			"failResponse":"{\"error\":\"Gateway Timeout\",\"message\":\"500 Internal Server Error\"}"}`, common)},
		{"the attempts are forgotten", func(s *sketch) {
			reported(s, posthaste.CallbackFailed, nil)
			s.Errors = nil
		}, fmt.Sprintf(`{"state":"CALLBACK_FAIL",%s,"failStatus":500,"failHeaders":{},"failResponse":""}`, common)},
		{"there is no failure function", func(s *sketch) {
			reported(s, posthaste.CallbackSuccess, &posthaste.Response{Status: 200})
			s.Run.Reported.NotFound = true
		}, `null`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newSketch()
			test.draw(s)
			checkJSON(t, s.shown().Failure, test.want)
		})
	}
}

// Contract, workflows D 17: an attempt without an answer is shown as one with.
func TestAttemptWithoutAnswer(t *testing.T) {
	s := newSketch()
	s.retries(s.stands[0], 0)
	groups := s.shown().Groups
	checkJSON(t, groups[1].Steps[0].Errors, fmt.Sprintf(
		`[{"error":"no answer","status":503,"headers":{},"body":"{\"error\":\"Service Unavailable\",\"message\":\"no answer\"}","time":%d}]`,
		noon.Add(time.Minute).UnixMilli()))
}

// Contract, workflows 8.4 and 6.3 trimBody: what is shown of bodies and headers.
func TestDisplay(t *testing.T) {
	result := "результат"
	draw := func() *sketch {
		s := newSketch()
		s.Run.Header = http.Header{"Authorization": {"secret"}, "X-Open": {"shown"}}
		call := s.call("1", "ask", 1)
		call.Message.Header = s.Run.Header
		s.answer(call)
		s.step(called)
		s.Run.Result = &result
		s.end(posthaste.RunSuccess)
		return s
	}
	redacted := func(text string) string { return posthaste.Redacted([]byte(text)) }
	hidden := http.Header{"Authorization": {redacted("secret")}, "X-Open": {"shown"}}
	open := http.Header{"Authorization": {"secret"}, "X-Open": {"shown"}}
	tests := []struct {
		name   string
		redact posthaste.Redaction
		limit  int
		bodies []string // initial payload, call, its answer, its result, what the run returned
		header http.Header
	}{
		{"everything", posthaste.Redaction{}, 1000, []string{"payload", "asked", "hi", "{}", result}, open},
		{"redacted bodies", posthaste.Redaction{Body: true}, 1000,
			[]string{redacted("payload"), redacted("asked"), redacted("hi"), redacted("{}"), redacted(result)}, open},
		{"redacted header", posthaste.Redaction{Headers: []string{"Authorization"}}, 1000,
			[]string{"payload", "asked", "hi", "{}", result}, hidden},
		{"trimmed, between characters", posthaste.Redaction{}, 5, []string{"paylo", "asked", "hi", "{}", "ре"}, open},
		{"marks are not trimmed", posthaste.Redaction{Body: true}, 5,
			[]string{redacted("payload"), redacted("asked"), redacted("hi"), redacted("{}"), redacted(result)}, open},
		{"no bodies", posthaste.Redaction{Body: true}, 0, []string{"", "", "", "", "none"}, open},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := draw()
			s.Run.Redact = test.redact
			for _, st := range s.stands {
				s.Messages[st.Message.ID] = *st
			}
			shown := s.Show(test.limit)
			payload, call := shown.Groups[0].Steps[0], shown.Groups[1].Steps[0]
			returned := "none"
			if shown.Response != nil {
				returned = *shown.Response
			}
			got := []string{payload.Out, call.CallBody, call.CallResponseBody, call.Out, returned}
			if diff := cmp.Diff(test.bodies, got); diff != "" {
				t.Errorf("bodies differ (-want +got):\n%s", diff)
			}
			for _, header := range []http.Header{payload.Header, call.CallHeader} {
				if diff := cmp.Diff(test.header, header); diff != "" {
					t.Errorf("headers differ (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestHeadersOutsideASCII checks that headers are shown as fetch reads them: those that were
// kept as bytes, and those of an answer that the run was told of in JSON (contract, decision 29).
func TestHeadersOutsideASCII(t *testing.T) {
	s := newSketch()
	s.Run.Header = http.Header{"X-Name": {"Jos\xe9"}}
	call := s.call("1", "gr\xf6\xdfe", 1)
	call.Message.Header = s.Run.Header
	s.entry(posthaste.CallAnswer, fmt.Sprintf(`{"status":201,"header":{"X-A":["José"]},"body":"aGk=","sourceMessageId":"%s"}`, call.Message.ID))
	groups := s.shown().Groups
	payload, step := groups[0].Steps[0], groups[1].Steps[0]
	for what, got := range map[string]string{
		"payload": payload.Header.Get("X-Name"), "call": step.CallHeader.Get("X-Name"), "answer": step.CallResponseHeader.Get("X-A"),
	} {
		if got != "José" {
			t.Errorf("the %s has the header %q, want José", what, got)
		}
	}
	if step.Name != "größe" {
		t.Errorf("the step is called %q, want größe", step.Name)
	}
}

// What is left out of a body takes no memory.
func TestTrimmedBodiesTakeNoMemory(t *testing.T) {
	const size = 16 << 20
	s := newSketch()
	result := strings.Repeat("x", size)
	s.Run.Result = &result
	s.end(posthaste.RunSuccess)
	before := heapInUse()
	shown := s.Show(1)
	grown := heapInUse() - before
	if shown.Response == nil || *shown.Response != "x" || grown > size/2 {
		t.Errorf("one byte of %d is shown in %d bytes of memory", size, grown)
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(shown)
}

func heapInUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// What either of two runs hides is hidden where one shows the other.
func TestInvokedRunIsRedactedByBoth(t *testing.T) {
	s := newSketch()
	s.Run.Redact = posthaste.Redaction{Headers: []string{"X-Parent"}}
	invoked := posthaste.RunRef{ID: "wfr_2", CreatedAt: noon}
	s.wait(posthaste.RunTopic(invoked), invoke).Invoked = &invoked
	s.Invoked = map[int]*runlog.Invoked{1: {Payload: []byte("body"), Run: &posthaste.Run{Settings: posthaste.Settings{
		Header: http.Header{"X-Parent": {"p"}, "X-Child": {"c"}, "X-Open": {"o"}},
		Redact: posthaste.Redaction{Body: true, Headers: []string{"X-Child"}},
	}}}}
	step := s.shown().Groups[1].Steps[0]
	want := http.Header{"X-Parent": {posthaste.Redacted([]byte("p"))}, "X-Child": {posthaste.Redacted([]byte("c"))}, "X-Open": {"o"}}
	if diff := cmp.Diff(want, step.InvokedHeader); diff != "" {
		t.Errorf("headers differ (-want +got):\n%s", diff)
	}
	if step.InvokedBody != posthaste.Redacted([]byte("body")) {
		t.Errorf("body %q is not redacted", step.InvokedBody)
	}
}

// Ids are made before the commit that gives the run its position, which may be later when
// others were written in between.
func TestNoRunIsYoungerThanItsFirstStep(t *testing.T) {
	s := newSketch()
	s.Run.CreatedAt = s.First.CreatedAt().Add(time.Second)
	shown := s.shown()
	if first := shown.Groups[0].Steps[0].CreatedAt; first < shown.CreatedAt {
		t.Errorf("the first step is of %d, the run of %d", first, shown.CreatedAt)
	}
}

// A body that is no text is shown in base64.
func TestBinaryBody(t *testing.T) {
	s := newSketch()
	s.Entries[0].Body = []byte{0xff, 0x00}
	if out := s.shown().Groups[0].Steps[0].Out; out != "/wA=" {
		t.Errorf("out %q", out)
	}
}

// checkJSON fails unless a value is encoded as the JSON that is wanted, in whatever
// order.
func checkJSON(t *testing.T, value any, want string) {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var gotValue, wantValue any
	if err := json.Unmarshal(encoded, &gotValue); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &wantValue); err != nil {
		t.Fatalf("what is wanted is not JSON: %v", err)
	}
	if diff := cmp.Diff(wantValue, gotValue); diff != "" {
		t.Errorf("JSON differs (-want +got):\n%s", diff)
	}
}
