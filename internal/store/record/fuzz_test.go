package record

import (
	"bytes"
	"testing"

	"posthaste"
)

// fuzz tries a decoder on anything. What it takes, it must have understood:
// encoding it and decoding that again changes nothing. again does both.
func fuzz(f *testing.F, again func(data []byte) ([]byte, error), seeds ...[]byte) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		once, err := again(data)
		if err != nil {
			return
		}
		twice, err := again(once)
		if err != nil {
			t.Fatalf("cannot read what was written: %v", err)
		}
		if !bytes.Equal(once, twice) {
			t.Errorf("stored form changed from %x to %x", once, twice)
		}
	})
}

// recode decodes and encodes a record.
func recode[T any](decode func([]byte) (T, error), encode func([]byte, T) []byte) func([]byte) ([]byte, error) {
	return func(data []byte) ([]byte, error) {
		value, err := decode(data)
		if err != nil {
			return nil, err
		}
		return encode(nil, value), nil
	}
}

func FuzzDecodeMessage(f *testing.F) {
	decode := func(data []byte) (*posthaste.Message, error) { return DecodeMessage(posthaste.MessageID{1}, "u", data) }
	fuzz(f, recode(decode, AppendMessage), AppendMessage(nil, typical()), AppendMessage(nil, fullMessage()))
}

func FuzzDecodeEvent(f *testing.F) {
	decode := func(data []byte) (*posthaste.Event, error) {
		event, err := DecodeEvent(data)
		return &event, err
	}
	fuzz(f, recode(decode, AppendEvent), AppendEvent(nil, &posthaste.Event{State: posthaste.StateError, Error: "refused"}))
}

func FuzzDecodeResponse(f *testing.F) {
	seed := &posthaste.Response{Status: 500, Body: []byte("no"), Truncated: true}
	fuzz(f, recode(DecodeResponse, AppendResponse), AppendResponse(nil, seed))
}

func FuzzDecodeDeadLetter(f *testing.F) {
	decode := func(data []byte) (*posthaste.DeadLetter, error) { return DecodeDeadLetter(1, "u", data) }
	seed := &posthaste.DeadLetter{ID: 1, Message: typical(), Error: "no", Response: &posthaste.Response{Status: 500}}
	fuzz(f, recode(decode, AppendDeadLetter), AppendDeadLetter(nil, seed))
}

func FuzzDecodeQueue(f *testing.F) {
	decode := func(data []byte) (*posthaste.Queue, error) { return DecodeQueue("q", data) }
	fuzz(f, recode(decode, AppendQueue), AppendQueue(nil, &posthaste.Queue{Parallelism: 2, Paused: true}))
}

func FuzzDecodeURLGroup(f *testing.F) {
	decode := func(data []byte) (*posthaste.URLGroup, error) { return DecodeURLGroup("g", data) }
	seed := &posthaste.URLGroup{Endpoints: []posthaste.Endpoint{{Name: "n", URL: "u"}}}
	fuzz(f, recode(decode, AppendURLGroup), AppendURLGroup(nil, seed))
}

func FuzzDecodeSchedule(f *testing.F) {
	decode := func(data []byte) (*posthaste.Schedule, error) { return DecodeSchedule("u", "s", data) }
	seed := &posthaste.Schedule{Cron: "* * * * *", LastMessages: []posthaste.MessageID{{1}}}
	fuzz(f, recode(decode, AppendSchedule), AppendSchedule(nil, seed))
}

func FuzzDecodeFlowKey(f *testing.F) {
	decode := func(data []byte) (*posthaste.FlowKey, error) { return DecodeFlowKey("k", data) }
	fuzz(f, recode(decode, AppendFlowKey), AppendFlowKey(nil, &posthaste.FlowKey{Paused: true, WindowCount: 2}))
}

func FuzzDecodeAction(f *testing.F) {
	decode := func(data []byte) (*posthaste.BulkAction, error) { return DecodeAction("u", "a", data) }
	seed := &posthaste.BulkAction{Kind: posthaste.ActionRetry, Filter: posthaste.Filter{Labels: []string{"l"}, Until: 1}, Failures: []posthaste.ActionFailure{{ID: "i", Error: "no"}}}
	fuzz(f, recode(decode, AppendAction), AppendAction(nil, seed))
}
