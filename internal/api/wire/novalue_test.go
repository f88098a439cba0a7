package wire_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"posthaste/internal/api/wire"
)

// readers are what takes parameters that select what is read, by name, with all the
// parameters it knows.
var readers = map[string]struct {
	read  func(t *testing.T, params string) (any, error)
	names []string
}{
	"log": {
		func(t *testing.T, params string) (any, error) { return wire.Events(parse(t, params), thousand) },
		[]string{
			"state", "messageId", "messageIds", "url", "topicName", "scheduleId", "queueName", "label", "host", "path",
			"callerIp", "callerIP", "flowControlKey", "fromDate", "toDate", "cursor", "count", "order",
		},
	},
	"DLQ": {
		func(t *testing.T, params string) (any, error) { return deadLetters(parse(t, params)) },
		[]string{
			"dlqIds", "messageId", "url", "topicName", "scheduleId", "queueName", "responseStatus", "label",
			"callerIp", "callerIP", "flowControlKey", "fromDate", "toDate", "cursor", "count", "order", "source", "trimBody",
		},
	},
	"log of runs": {
		func(t *testing.T, params string) (any, error) {
			q, err := wire.RunLog(parse(t, params), thousand)
			return []any{q.Runs(), q.Events(), q.Filter.RunStates, q.StepStates, q.Filter.MessageIDs, q.BodyLimit}, err
		},
		[]string{
			"state", "messageId", "messageIds", "workflowRuns", "workflowRunId", "workflowCreatedAt", "workflowUrl",
			"label", "host", "path", "callerIp", "callerIP", "flowControlKey", "fromDate", "toDate", "cursor", "count",
			"order", "trimBody",
		},
	},
	"DLQ of runs": {
		func(t *testing.T, params string) (any, error) { return failedRuns(parse(t, params)) },
		[]string{
			"dlqIds", "workflowUrl", "url", "workflowRunId", "workflowCreatedAt", "label", "responseStatus",
			"failureFunctionState", "failureCallbackState", "callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
			"cursor", "count", "order", "source", "trimBody",
		},
	},
}

// TestReadingWithoutValue checks that who reads may give any parameter without a
// value, as loops do with their first cursor, and that it counts as not given: every
// parameter alike, in every list (docs/compatibility.md).
func TestReadingWithoutValue(t *testing.T) {
	for list, reader := range readers {
		want, err := reader.read(t, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range reader.names {
			t.Run(list+" by "+name, func(t *testing.T) {
				got, err := reader.read(t, name+"=")
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("%v, differs from a query without %s (-want +got):\n%s", err, name, diff)
				}
			})
		}
	}
}

// TestChangingWithoutCount checks that a count that has lost its value does not become
// all there is, and that a cancellation takes no cursor of anything else (contract,
// decision 16).
func TestChangingWithoutCount(t *testing.T) {
	for name, change := range map[string]func(params string) error{
		"cancel messages": func(params string) error { _, err := live(parse(t, params)); return err },
		"cancel runs":     func(params string) error { _, err := liveRuns(parse(t, params)); return err },
		"sweep messages":  func(params string) error { _, _, err := sweepLetters(parse(t, params)); return err },
		"sweep runs":      func(params string) error { _, _, err := sweepRuns(parse(t, params)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			checkRefused(t, change("count="), "count has no value: give one, or leave it out to change as many as one call can")
			if err := change("count=1&cursor="); err != nil {
				t.Error(err)
			}
			if strings.HasPrefix(name, "cancel") {
				checkRefused(t, change("cursor=p1"), `cursor "p1" cannot be given here: a cancellation has no pages, repeat it until it cancels nothing more`)
			}
		})
	}
}

// TestRestartingWithoutValue checks that a filter of runs that has lost its value does
// not widen what is restarted or deleted (contract, decision 16); TestLiveErrors and
// TestDeadLetterErrors check that of messages.
func TestRestartingWithoutValue(t *testing.T) {
	filters := []string{
		"dlqIds", "workflowUrl", "url", "workflowRunId", "workflowCreatedAt", "label", "responseStatus",
		"failureFunctionState", "failureCallbackState", "callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
	}
	for _, name := range filters {
		for spelling, value := range map[string]string{"empty": "", "commas": ",%20,", "empty twice": "&" + name + "="} {
			t.Run(name+" "+spelling, func(t *testing.T) {
				_, _, err := sweepRuns(parse(t, name+"="+value))
				checkRefused(t, err, name+" has no value: give one, or leave it out to select by other filters or everything")
			})
		}
	}
}
