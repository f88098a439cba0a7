package record

import (
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"posthaste"
)

// roundTrip proves that what is drawn comes back as it was.
func roundTrip[T any](t *testing.T, what string, drawn *rapid.Generator[T], through func(T) (T, error)) {
	t.Run(what, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			want := drawn.Draw(t, what)
			got, err := through(want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s changed (-want +got):\n%s", what, diff)
			}
		})
	})
}

func TestRoundTrip(t *testing.T) {
	roundTrip(t, "message", anyMessage, func(m *posthaste.Message) (*posthaste.Message, error) {
		return DecodeMessage(m.ID, m.User, AppendMessage(nil, m))
	})
	roundTrip(t, "event", anyEvent, func(e posthaste.Event) (posthaste.Event, error) {
		return DecodeEvent(AppendEvent(nil, &e))
	})
	roundTrip(t, "response", anyResponse, func(r *posthaste.Response) (*posthaste.Response, error) {
		return DecodeResponse(AppendResponse(nil, r))
	})
	roundTrip(t, "dead letter", anyDeadLetter, func(d *posthaste.DeadLetter) (*posthaste.DeadLetter, error) {
		return DecodeDeadLetter(d.ID, d.Message.User, AppendDeadLetter(nil, d))
	})
	roundTrip(t, "queue", anyQueue, func(q *posthaste.Queue) (*posthaste.Queue, error) {
		return DecodeQueue(q.Name, AppendQueue(nil, q))
	})
	roundTrip(t, "URL group", anyURLGroup, func(g *posthaste.URLGroup) (*posthaste.URLGroup, error) {
		return DecodeURLGroup(g.Name, AppendURLGroup(nil, g))
	})
	roundTrip(t, "schedule", anySchedule, func(s *posthaste.Schedule) (*posthaste.Schedule, error) {
		return DecodeSchedule(s.User, s.ID, AppendSchedule(nil, s))
	})
	roundTrip(t, "flow-control key", anyFlowKey, func(k *posthaste.FlowKey) (*posthaste.FlowKey, error) {
		return DecodeFlowKey(k.Key, AppendFlowKey(nil, k))
	})
	roundTrip(t, "bulk action", anyAction, func(a *posthaste.BulkAction) (*posthaste.BulkAction, error) {
		return DecodeAction(a.User, a.ID, AppendAction(nil, a))
	})
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	prefix := "what was there"
	for name, appended := range map[string][]byte{
		"message":  AppendMessage([]byte(prefix), typical()),
		"event":    AppendEvent([]byte(prefix), &posthaste.Event{State: posthaste.StateCreated}),
		"response": AppendResponse([]byte(prefix), &posthaste.Response{Status: 500}),
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.HasPrefix(string(appended), prefix) || len(appended) == len(prefix) {
				t.Errorf("got %q, want something behind %q", appended, prefix)
			}
		})
	}
}

// The memory a backend lends to a decoder is its own again afterwards.
func TestDecodeCopies(t *testing.T) {
	want := typical()
	data := AppendMessage(nil, want)
	got, err := DecodeMessage(want.ID, want.User, data)
	if err != nil {
		t.Fatal(err)
	}
	clear(data)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("message changed with the data it was decoded from (-want +got):\n%s", diff)
	}
}

// Events hold neither what their key says nor the response.
func TestEventLeavesOutWhatLiesElsewhere(t *testing.T) {
	event := posthaste.Event{
		Position:  7,
		MessageID: posthaste.MessageID{1},
		State:     posthaste.StateError,
		Error:     "refused",
		Response:  &posthaste.Response{Status: 500},
	}
	got, err := DecodeEvent(AppendEvent(nil, &event))
	if err != nil {
		t.Fatal(err)
	}
	want := posthaste.Event{State: posthaste.StateError, Error: "refused"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decoded event (-want +got):\n%s", diff)
	}
}

func TestTimesAreKeptToTheMillisecond(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	event := posthaste.Event{State: posthaste.StateRetry, NextDeliveryAt: at.Add(456 * time.Microsecond)}
	got, err := DecodeEvent(AppendEvent(nil, &event))
	if err != nil || !got.NextDeliveryAt.Equal(at) {
		t.Errorf("got %v, %v, want %v", got.NextDeliveryAt, err, at)
	}
}

func TestHeaderWithoutValuesIsLeftOut(t *testing.T) {
	got, err := DecodeResponse(AppendResponse(nil, &posthaste.Response{
		Header: http.Header{"A": {"1", "2"}, "B": {}, "C": nil, "D": {""}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(http.Header{"A": {"1", "2"}, "D": {""}}, got.Header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
}

// Values share memory; growing those of one name must not reach the next one's.
func TestDecodedHeaderCanGrow(t *testing.T) {
	h, err := header{"A", "1", "B", "2"}.restore()
	if err != nil {
		t.Fatal(err)
	}
	h.Add("A", "3")
	if diff := cmp.Diff(http.Header{"A": {"1", "3"}, "B": {"2"}}, h); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
}

func TestStateOutsideTheVocabularyPanics(t *testing.T) {
	for _, state := range []posthaste.State{"", "LOST"} {
		t.Run(string(state), func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			AppendEvent(nil, &posthaste.Event{State: state})
		})
	}
}

func TestEveryStateHasACode(t *testing.T) {
	for _, state := range allStates() {
		if states[StateCode(state)] != state {
			t.Errorf("the code of %s stands for another state", state)
		}
	}
}

// What a later version may add is passed over.
func TestUnknownKeysArePassedOver(t *testing.T) {
	// {1: 2, 2: "refused", 99: {1: [true, null]}}
	data, err := hex.DecodeString("01a3010202677265667573656418" + "63a10182f5f6")
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeEvent(data)
	if err != nil {
		t.Fatal(err)
	}
	want := posthaste.Event{State: posthaste.StateActive, Error: "refused"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}
