package record

import (
	"encoding/hex"
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"posthaste"
)

var anyRef = rapid.Custom(func(t *rapid.T) posthaste.RunRef {
	return posthaste.RunRef{
		ID:        anyText.Draw(t, "id"),
		CreatedAt: anyTime.Draw(t, "created at"),
		Position:  posthaste.Position(rapid.Uint64().Draw(t, "position")),
		URL:       anyText.Draw(t, "url"),
	}
})

var (
	anyOptionalRef = rapid.Ptr(anyRef, true)
	anyOptionalID  = rapid.OneOf(rapid.Just(posthaste.MessageID{}), anyID)
	anyFeatures    = rapid.Map(rapid.Uint8(), func(n uint8) posthaste.Features { return posthaste.Features(n) })
	anyCallType    = rapid.Map(anyText, func(text string) posthaste.CallType { return posthaste.CallType(text) })
)

var anyRunLink = rapid.Custom(func(t *rapid.T) posthaste.RunLink {
	return posthaste.RunLink{
		RunRef:   anyRef.Draw(t, "run"),
		CallType: anyCallType.Draw(t, "call type"),
		Entry:    rapid.Int().Draw(t, "entry"),
		Features: anyFeatures.Draw(t, "features"),

		ListBytes: rapid.Int().Draw(t, "list bytes"),
	}
})

// anyRun draws a run without its progress.
var anyRun = rapid.Custom(func(t *rapid.T) *posthaste.Run {
	run := &posthaste.Run{
		RunRef:   anyRef.Draw(t, "run"),
		User:     anyText.Draw(t, "user"),
		CallerIP: anyText.Draw(t, "caller"),
		Features: anyFeatures.Draw(t, "features"),
		FirstID:  anyOptionalID.Draw(t, "first"),
		LazySDK:  rapid.Bool().Draw(t, "lazy"),
		Queue:    anyText.Draw(t, "queue"),
		Settings: anySettings(1).Draw(t, "settings"),
		Invoker:  anyOptionalRef.Draw(t, "invoker"),

		Overridden: posthaste.Overridden(rapid.Uint8().Draw(t, "overridden")),
	}
	if origin := anyOptionalRef.Draw(t, "origin"); origin != nil {
		run.Origin = &posthaste.RunOrigin{RunRef: *origin, DeadLetterID: posthaste.DeadLetterID(rapid.Uint64().Draw(t, "letter")), Resumed: rapid.Bool().Draw(t, "resumed")}
	}
	return run
})

var anyRunCallback = rapid.Custom(func(t *rapid.T) posthaste.RunCallback {
	return posthaste.RunCallback{
		MessageID: anyOptionalID.Draw(t, "message"),
		URL:       anyText.Draw(t, "url"),
		State:     posthaste.CallbackState(anyText.Draw(t, "state")),
		NotFound:  rapid.Bool().Draw(t, "not found"),
		Response:  rapid.OneOf(rapid.Just[*posthaste.Response](nil), anyResponse).Draw(t, "response"),
		Error:     anyText.Draw(t, "error"),
	}
})

var anyRunProgress = rapid.Custom(func(t *rapid.T) posthaste.RunProgress {
	return posthaste.RunProgress{
		State:         posthaste.RunState(anyText.Draw(t, "state")),
		Entries:       rapid.Int().Draw(t, "entries"),
		CompletedAt:   anyTime.Draw(t, "completed at"),
		Result:        rapid.Ptr(anyText, true).Draw(t, "result"),
		DeadLetterID:  posthaste.DeadLetterID(rapid.Uint64().Draw(t, "letter")),
		FailedID:      anyOptionalID.Draw(t, "failed"),
		FailedStatus:  rapid.Int().Draw(t, "status"),
		Reported:      rapid.Ptr(anyRunCallback, true).Draw(t, "reported"),
		Successor:     anyOptionalRef.Draw(t, "successor"),
		BufferedBytes: rapid.Int().Draw(t, "kept bytes"),
		ListBytes:     rapid.Int().Draw(t, "list bytes"),
	}
})

// anyRunEntry draws an entry that says what it is: none that does is a step.
var anyRunEntry = rapid.Custom(func(t *rapid.T) posthaste.RunEntry {
	callType := anyCallType.Draw(t, "call type")
	if callType == "" {
		callType = posthaste.CallStep
	}
	return posthaste.RunEntry{
		Index:     rapid.IntMin(0).Draw(t, "index"),
		MessageID: anyOptionalID.Draw(t, "message"),
		CallType:  callType,
		Body:      anyBytes.Draw(t, "body"),
	}
})

var anyWaiter = rapid.Custom(func(t *rapid.T) *posthaste.Waiter {
	return &posthaste.Waiter{
		Position:        posthaste.Position(rapid.Uint64().Draw(t, "position")),
		Run:             anyRef.Draw(t, "run"),
		MessageID:       anyOptionalID.Draw(t, "message"),
		CreatedAt:       anyTime.Draw(t, "created at"),
		After:           rapid.Int().Draw(t, "after"),
		Step:            anyBytes.Draw(t, "step"),
		Topic:           posthaste.Topic(anyText.Draw(t, "topic")),
		Invoked:         anyOptionalRef.Draw(t, "invoked"),
		Delivery:        anySettings(1).Draw(t, "delivery"),
		Deadline:        anyTime.Draw(t, "deadline"),
		Timeout:         anyText.Draw(t, "timeout"),
		TimeoutURL:      anyText.Draw(t, "timeout url"),
		TimeoutDelivery: anySettings(1).Draw(t, "timeout delivery"),
		Shown: posthaste.WaiterShown{
			URL:           anyText.Draw(t, "shown url"),
			Header:        anyHeader.Draw(t, "shown header"),
			TimeoutBody:   anyBytes.Draw(t, "timeout body"),
			TimeoutHeader: anyHeader.Draw(t, "timeout header"),
		},
	}
})

func TestRoundTripOfRuns(t *testing.T) {
	roundTrip(t, "run", anyRun, func(r *posthaste.Run) (*posthaste.Run, error) {
		return DecodeRun(r.User, AppendRun(nil, r))
	})
	roundTrip(t, "progress", anyRunProgress, func(p posthaste.RunProgress) (posthaste.RunProgress, error) {
		return DecodeRunProgress(AppendRunProgress(nil, &p))
	})
	roundTrip(t, "entry", anyRunEntry, func(e posthaste.RunEntry) (posthaste.RunEntry, error) {
		return DecodeRunEntry(e.Index, AppendRunEntry(nil, &e))
	})
	roundTrip(t, "waiter", anyWaiter, func(w *posthaste.Waiter) (*posthaste.Waiter, error) {
		return DecodeWaiter(w.Position, AppendWaiter(nil, w))
	})
}

// The record of a run leaves its progress to another record.
func TestRunWithoutProgress(t *testing.T) {
	run := &posthaste.Run{RunRef: posthaste.RunRef{ID: "r"}}
	before := string(AppendRun(nil, run))
	run.State, run.Entries = posthaste.RunFailed, 3
	if after := string(AppendRun(nil, run)); after != before {
		t.Errorf("record %x, want %x as before", after, before)
	}
}

// Each kind with every field set, as TestStoredForm has it.
func TestStoredFormOfRuns(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	id := posthaste.MessageID{0xff}
	ref := posthaste.RunRef{ID: "r", CreatedAt: at, Position: 5, URL: "w"}
	result := ""
	const storedID = "50ff000000000000000000000000000000"
	const storedRef = "a4" + "016172" + "021b0000018bcfe56800" + "0305" + "046177"
	const storedAt = "1b0000018bcfe56800"
	for _, test := range []struct {
		name string
		got  []byte
		want string
	}{
		{
			"run",
			AppendRun(nil, &posthaste.Run{
				RunRef: ref, User: "u", CallerIP: "::1", Features: posthaste.FeatureInitialBody, FirstID: id, LazySDK: true,
				Settings: posthaste.Settings{Method: "GET"}, Invoker: &ref,
				Origin: &posthaste.RunOrigin{RunRef: ref, DeadLetterID: 6}, Overridden: posthaste.OverriddenRetries, Queue: "q",
			}),
			"01ab" + "01" + storedRef + "02633a3a31" + "0302" + "04f5" + "05a10163474554" + "06" + storedRef + "07" + storedRef + "0806" + "09" + storedID + "0a01" + "0b6171",
		},
		{
			"progress",
			AppendRunProgress(nil, &posthaste.RunProgress{
				State: posthaste.RunFailed, Entries: 2, CompletedAt: at, Result: &result, DeadLetterID: 6, FailedID: id, FailedStatus: 503,
				Reported: &posthaste.RunCallback{
					MessageID: id, URL: "c", State: posthaste.CallbackFailed, NotFound: true,
					Response: &posthaste.Response{Status: 500}, Error: "no",
				},
				Successor: &ref, BufferedBytes: 7, ListBytes: 8,
			}),
			"01ab" + "016a" + hex.EncodeToString([]byte("RUN_FAILED")) + "0202" + "03" + storedAt + "0460" + "0506" + "06" + storedID + "071901f7" +
				"08a6" + "01" + storedID + "026163" + "036d" + hex.EncodeToString([]byte("CALLBACK_FAIL")) + "04f5" + "054601a1011901f4" + "06626e6f" +
				"09" + storedRef + "0a07" + "0b08",
		},
		{
			"step",
			AppendRunEntry(nil, &posthaste.RunEntry{Index: 7, MessageID: id, CallType: posthaste.CallStep, Body: []byte("b")}),
			"01a2" + "01" + storedID + "034162",
		},
		{
			"call",
			AppendRunEntry(nil, &posthaste.RunEntry{Index: 7, MessageID: id, CallType: posthaste.CallRequest, Body: []byte("b")}),
			"01a3" + "01" + storedID + "026a" + hex.EncodeToString([]byte("toCallback")) + "034162",
		},
		{
			"waiter",
			AppendWaiter(nil, &posthaste.Waiter{
				Position: 9, Run: ref, MessageID: id, CreatedAt: at, After: 1, Step: []byte("s"), Topic: "t", Invoked: &ref,
				Delivery: posthaste.Settings{Method: "PUT"}, Deadline: at, Timeout: "1h", TimeoutURL: "u",
				TimeoutDelivery: posthaste.Settings{Method: "GET"},
				Shown: posthaste.WaiterShown{
					URL: "v", Header: http.Header{"A": {"1"}}, TimeoutBody: []byte("b"), TimeoutHeader: http.Header{"B": {"2"}},
				},
			}),
			"01b0" + "01" + storedRef + "02" + storedAt + "0301" + "044173" + "056174" + "06" + storedRef + "07a10163505554" + "08" + storedAt +
				"09623168" + "0a6175" + "0ba10163474554" + "0c6176" + "0d8261416131" + "0e4162" + "0f8261426132" + "10" + storedID,
		},
		{
			"link of a message",
			AppendMessage(nil, &posthaste.Message{
				URL: "u", CreatedAt: at, NotBefore: at,
				Run: &posthaste.RunLink{RunRef: ref, CallType: posthaste.CallStep, Entry: 3, Features: posthaste.FeatureLazyFetch, ListBytes: 9},
			}),
			"01a4" + "016175" + "03" + storedAt + "0aa0" + "0ca5" + "01" + storedRef + "0264" + hex.EncodeToString([]byte("step")) + "0303" + "0401" + "0509",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := hex.EncodeToString(test.got); got != test.want {
				t.Errorf("stored form\n%s, want\n%s", got, test.want)
			}
		})
	}
}

func FuzzDecodeRun(f *testing.F) {
	decode := func(data []byte) (*posthaste.Run, error) { return DecodeRun("u", data) }
	ref := posthaste.RunRef{ID: "r", URL: "http://a"}
	seed := &posthaste.Run{RunRef: ref, FirstID: posthaste.MessageID{1}, Invoker: &ref, Origin: &posthaste.RunOrigin{RunRef: ref}}
	fuzz(f, recode(decode, AppendRun), AppendRun(nil, seed))
}

func FuzzDecodeRunProgress(f *testing.F) {
	decode := func(data []byte) (*posthaste.RunProgress, error) {
		p, err := DecodeRunProgress(data)
		return &p, err
	}
	seed := &posthaste.RunProgress{
		State:    posthaste.RunFailed,
		FailedID: posthaste.MessageID{1},
		Reported: &posthaste.RunCallback{State: posthaste.CallbackFailed, Response: &posthaste.Response{Status: 500}},
	}
	fuzz(f, recode(decode, AppendRunProgress), AppendRunProgress(nil, seed))
}

func FuzzDecodeRunEntry(f *testing.F) {
	decode := func(data []byte) (*posthaste.RunEntry, error) {
		e, err := DecodeRunEntry(1, data)
		return &e, err
	}
	seed := &posthaste.RunEntry{MessageID: posthaste.MessageID{1}, CallType: posthaste.CallAnswer, Body: []byte("b")}
	fuzz(f, recode(decode, AppendRunEntry), AppendRunEntry(nil, seed))
}

func FuzzDecodeWaiter(f *testing.F) {
	decode := func(data []byte) (*posthaste.Waiter, error) { return DecodeWaiter(1, data) }
	seed := &posthaste.Waiter{
		MessageID: posthaste.MessageID{1}, Topic: posthaste.EventTopic("e"), Invoked: &posthaste.RunRef{ID: "r"},
		Shown: posthaste.WaiterShown{Header: http.Header{"A": {"1"}}},
	}
	fuzz(f, recode(decode, AppendWaiter), AppendWaiter(nil, seed))
}
