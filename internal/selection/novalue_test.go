package selection_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"posthaste/internal/selection"
)

// TestWithoutValue checks that who reads may give any parameter without a value,
// as loops do with their first cursor, and that it counts as not given: for every
// parameter alike, on the log as on the DLQ. Calls that change things refuse that:
// see TestLiveErrors and TestDeadLetterErrors.
func TestWithoutValue(t *testing.T) {
	common := []string{
		"messageId", "url", "topicName", "scheduleId", "queueName", "label", "callerIp", "callerIP", "flowControlKey",
		"fromDate", "toDate", "cursor", "count", "order",
	}
	events := func(params string) (any, error) { return selection.Events(parse(t, params), thousand) }
	letters := func(params string) (any, error) { return selection.DeadLetters(parse(t, params)) }
	tests := []struct {
		name  string
		read  func(params string) (any, error)
		names []string
	}{
		{"log", events, append([]string{"state", "messageIds", "host", "path"}, common...)},
		{"DLQ", letters, append([]string{"dlqIds", "responseStatus", "source"}, common...)},
	}
	for _, test := range tests {
		want, err := test.read("")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range test.names {
			t.Run(test.name+" by "+name, func(t *testing.T) {
				got, err := test.read(name + "=")
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("%v, differs from a query without %s (-want +got):\n%s", err, name, diff)
				}
			})
		}
	}
}
