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

func TestMessageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyMessage.Draw(t, "message")
		got, err := DecodeMessage(want.ID, want.User, AppendMessage(nil, want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("message changed (-want +got):\n%s", diff)
		}
	})
}

func TestEventRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyEvent.Draw(t, "event")
		got, err := DecodeEvent(AppendEvent(nil, &want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("event changed (-want +got):\n%s", diff)
		}
	})
}

func TestResponseRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyResponse.Draw(t, "response")
		got, err := DecodeResponse(AppendResponse(nil, want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("response changed (-want +got):\n%s", diff)
		}
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
	for _, state := range posthaste.States {
		if states[stateCode(state)] != state {
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
