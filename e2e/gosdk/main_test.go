package gosdk

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	qstash "github.com/upstash/qstash-go"
)

const (
	// patience is how long the tests wait for something that has to happen.
	patience = time.Minute
	// pause is the time between two looks.
	pause = 20 * time.Millisecond
)

// client is configured by the environment alone, as apps do it.
var client *qstash.Client

func TestMain(m *testing.M) {
	if os.Getenv("QSTASH_URL") == "" || os.Getenv("QSTASH_TOKEN") == "" {
		fmt.Fprintln(os.Stderr, "QSTASH_URL and QSTASH_TOKEN have to name a server and its user: run TestGoSDK of the package above")
		os.Exit(1)
	}
	client = qstash.NewClientWithEnv()
	os.Exit(m.Run())
}

// must returns the value of a call that may not fail.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return value
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkError fails the test unless an error says a text.
func checkError(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want one that says %q", err, text)
	}
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s is %+v, want %+v", what, got, want)
	}
}

// states reads the log of a message until it has ended and returns its states,
// oldest first.
func states(t *testing.T, messageID string) string {
	t.Helper()
	ended := []qstash.EventState{qstash.Delivered, qstash.Failed, qstash.Canceled}
	var events []qstash.Event
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pause) {
		events = list(t, qstash.EventFilter{MessageId: messageID})
		if len(events) > 0 && slices.Contains(ended, events[0].State) {
			return story(events)
		}
	}
	t.Fatalf("%s has not ended: %s", messageID, story(events))
	return ""
}

// story returns the states of events that are ordered latest first.
func story(events []qstash.Event) string {
	var names []string
	for _, event := range slices.Backward(events) {
		names = append(names, string(event.State))
	}
	return strings.Join(names, " ")
}

// list returns the events that pass a filter, latest first.
func list(t *testing.T, filter qstash.EventFilter) []qstash.Event {
	t.Helper()
	events, _, err := client.Events().List(qstash.ListEventsOptions{Filter: filter})
	check(t, err)
	return events
}
