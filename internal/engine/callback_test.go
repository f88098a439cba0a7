package engine_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// mailbox is a Dispatcher that answers like a destination and keeps the callbacks.
type mailbox struct {
	answer func(retried int) posthaste.Outcome

	mu        sync.Mutex
	callbacks []*posthaste.Message
}

func (b *mailbox) Attempt(_ context.Context, m *posthaste.Message, retried int) posthaste.Outcome {
	if m.SourceID.IsZero() {
		return b.answer(retried)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.callbacks = append(b.callbacks, m)
	return ok
}

// Contract, messages 5 and U-59.
func TestCallbacks(t *testing.T) {
	answer := posthaste.Outcome{
		Error:    "500 Internal Server Error",
		Response: &posthaste.Response{Status: 500, Header: http.Header{"X-A": {"b"}}, Body: []byte("sorry"), Truncated: true},
	}
	box := &mailbox{answer: func(int) posthaste.Outcome { return answer }}
	inWorld(t, box, engine.Options{}, func(w *world) {
		settings := retries(1)
		settings.Header = http.Header{"X-Source": {"s"}}
		settings.Callback = &posthaste.Callback{URL: "http://back.example/told", Settings: posthaste.Settings{Header: http.Header{"X-Mine": {"m"}}}}
		none := 0
		settings.FailureCallback = &posthaste.Callback{URL: "http://back.example/failed", Settings: posthaste.Settings{Retries: &none}}
		id := w.publish(engine.Publication{Body: []byte("hi"), CallerIP: "192.0.2.1", Settings: settings})
		w.pass(time.Hour)

		var told []map[string]any
		for _, m := range box.callbacks {
			var body map[string]any
			if err := json.Unmarshal(m.Body, &body); err != nil {
				t.Fatal(err)
			}
			body["to"] = m.URL
			told = append(told, body)
			if m.SourceID != id || m.Header.Get("Content-Type") != "application/json" || m.Callback != nil {
				t.Errorf("callback %+v: wrong source, content type or callbacks", m)
			}
		}
		letters, err := w.DeadLetters(w.t.Context(), user, store.DeadLetterQuery{High: posthaste.MaxPosition, Limit: 10})
		if err != nil || len(letters.DeadLetters) != 1 {
			t.Fatalf("%d dead letters, %v; want 1", len(letters.DeadLetters), err)
		}
		common := func(to string, retried float64) map[string]any {
			return map[string]any{
				"to": to, "status": 500., "header": map[string]any{"X-A": []any{"b"}}, "body": "c29ycnk=", "truncated": true,
				"retried": retried, "maxRetries": 1., "sourceMessageId": id.String(), "url": "http://a.example/x",
				"method": "POST", "sourceHeader": map[string]any{"X-Source": []any{"s"}}, "sourceBody": "aGk=",
				"notBefore": float64(w.start.UnixMilli()), "createdAt": float64(w.start.UnixMilli()), "callerIP": "192.0.2.1",
			}
		}
		failure := common("http://back.example/failed", 1)
		failure["dlqId"] = letters.DeadLetters[0].ID.String()
		want := []map[string]any{common("http://back.example/told", 0), common("http://back.example/told", 1), failure}
		if diff := cmp.Diff(want, told, cmp.Transformer("sorted", sortedByTarget)); diff != "" {
			t.Errorf("callbacks (-want +got):\n%s", diff)
		}
		if got := box.callbacks[0].Header.Get("X-Mine"); got != "m" {
			t.Errorf("forwarded header of the callback = %q, want m", got)
		}
		if got := box.callbacks[0].MaxRetries(); got != 1 {
			t.Errorf("callback has %d retries, want those of its source", got)
		}
	})
}

// sortedByTarget orders the callbacks of one commit, which are delivered at once.
func sortedByTarget(all []map[string]any) map[string]any {
	byTarget := map[string]any{}
	for _, one := range all {
		key, _ := json.Marshal([]any{one["to"], one["retried"]})
		byTarget[string(key)] = one
	}
	return byTarget
}

// Contract, U-58.
func TestCallbackWithoutAnAnswer(t *testing.T) {
	box := &mailbox{answer: func(int) posthaste.Outcome { return posthaste.Outcome{Error: "connection refused"} }}
	inWorld(t, box, engine.Options{}, func(w *world) {
		settings := retries(0)
		settings.FailureCallback = &posthaste.Callback{URL: "http://back.example/"}
		w.publish(engine.Publication{Settings: settings})
		w.pass(time.Second)
		var body struct {
			Status *int        `json:"status"`
			Header http.Header `json:"header"`
			Body   *string     `json:"body"`
		}
		if err := json.Unmarshal(box.callbacks[0].Body, &body); err != nil {
			t.Fatal(err)
		}
		if body.Status == nil || *body.Status != 0 || body.Header == nil || body.Body == nil || *body.Body != "" {
			t.Errorf("callback %s; want status 0, an empty header and an empty body", box.callbacks[0].Body)
		}
	})
}

// TestReportHoldsWhatFetchReads checks that a callback tells of headers what a Headers object
// can hold (contract, decision 29).
func TestReportHoldsWhatFetchReads(t *testing.T) {
	source := &posthaste.Message{Settings: posthaste.Settings{Header: http.Header{"X-Name": {"Jos\xe9"}}}}
	answer := &posthaste.Response{Header: http.Header{"X-City": {"S\xc3\xa3o"}}}
	report := engine.NewReport(store.Claim{Message: source}, answer)
	want := []http.Header{{"X-Name": {"José"}}, {"X-City": {"SÃ£o"}}}
	if diff := cmp.Diff(want, []http.Header{report.SourceHeader, report.Header}); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

// TestReportNamesTheOrigin checks that a callback tells by which group and schedule
// its source was made, and says nothing where there was none (contract, messages 5).
func TestReportNamesTheOrigin(t *testing.T) {
	tests := []struct {
		name   string
		source posthaste.Message
		want   map[string]any
	}{
		{"published to a URL", posthaste.Message{}, map[string]any{}},
		{"published to a group", posthaste.Message{URLGroup: "g", Endpoint: "east"}, map[string]any{"topicName": "g", "endpointName": "east"}},
		{"made by a schedule", posthaste.Message{ScheduleID: "scd_1"}, map[string]any{"scheduleId": "scd_1"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text, err := json.Marshal(engine.NewReport(store.Claim{Message: &test.source}, nil))
			if err != nil {
				t.Fatal(err)
			}
			var told map[string]any
			if err := json.Unmarshal(text, &told); err != nil {
				t.Fatal(err)
			}
			maps.DeleteFunc(told, func(name string, _ any) bool {
				return !slices.Contains([]string{"topicName", "endpointName", "scheduleId"}, name)
			})
			if diff := cmp.Diff(test.want, told); diff != "" {
				t.Errorf("origin (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCallbackInherits compares the message of a callback with its source: it has
// its owner, its publisher's address and its retries, and of settings what the
// callback's family gave, but for the type of its body (contract, U-57, U-88 and
// decision 1).
func TestCallbackInherits(t *testing.T) {
	box := &mailbox{answer: func(int) posthaste.Outcome { return ok }}
	inWorld(t, box, engine.Options{}, func(w *world) {
		settings := retries(7)
		settings.Dialect = posthaste.DialectService
		settings.Method = http.MethodPut
		settings.Timeout = time.Minute
		settings.RetryDelay = "1"
		settings.Labels = []string{"source"}
		settings.Header = http.Header{"X-Source": {"s"}}
		settings.FlowControl = posthaste.FlowControl{Key: "k", FlowLimit: posthaste.FlowLimit{Rate: 9}}
		settings.Callback = &posthaste.Callback{
			URL: "http://back.example/",
			Settings: posthaste.Settings{
				Dialect: posthaste.DialectService,
				Labels:  []string{"told"},
				Header:  http.Header{"Content-Type": {"text/html"}, "X-Mine": {"m"}},
			},
		}
		source := w.publish(engine.Publication{Queue: "q", CallerIP: "192.0.2.1", Settings: settings})
		w.pass(time.Second)

		got := *box.callbacks[0]
		want := posthaste.Message{
			ID: got.ID, User: user, URL: "http://back.example/", Body: got.Body, SourceID: source,
			CreatedAt: got.CreatedAt, NotBefore: got.CreatedAt, CallerIP: "192.0.2.1",
		}
		want.Settings = retries(7)
		want.Dialect = posthaste.DialectService
		want.Labels = []string{"told"}
		want.Header = http.Header{"Content-Type": {"application/json"}, "X-Mine": {"m"}}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("callback (-want +got):\n%s", diff)
		}
	})
}

// TestFailedCallback checks that a callback that fails ends as any message does,
// and that nobody is called back about it (contract, U-56).
func TestFailedCallback(t *testing.T) {
	inWorld(t, answers(broken), engine.Options{}, func(w *world) {
		settings := retries(0)
		settings.FailureCallback = &posthaste.Callback{URL: "http://back.example/", Settings: retries(1)}
		settings.FailureCallback.Settings.RetryDelay = "1000"
		source := w.publish(engine.Publication{Settings: settings})
		w.pass(time.Hour)
		letters := w.deadLetters()
		if len(letters) != 2 || letters[0].Message.ID != source || letters[1].Message.SourceID != source {
			t.Fatalf("dead letters %+v, want those of the message and of its callback", letters)
		}
		w.wantLog(letters[1].Message.ID, "10ms CREATED",
			"10ms ACTIVE", "20ms ERROR next 1.02s status 500", "20ms RETRY next 1.02s",
			"1.02s ACTIVE", "1.03s ERROR status 500", "1.03s FAILED")
	})
}

// TestCallbackHidesWhatItsSourceHides checks that readers of a callback's log do
// not find there what they must not see of the message it tells of (contract,
// messages 6.7).
func TestCallbackHidesWhatItsSourceHides(t *testing.T) {
	type redaction = posthaste.Redaction
	tests := map[string]struct{ source, own, want redaction }{
		"nothing":              {},
		"its own":              {own: redaction{Headers: []string{"A"}}, want: redaction{Headers: []string{"A"}}},
		"the body":             {source: redaction{Body: true}, want: redaction{Body: true}},
		"all headers":          {source: redaction{AllHeaders: true}, want: redaction{Body: true, AllHeaders: true}},
		"one header":           {source: redaction{Headers: []string{"B"}}, want: redaction{Body: true, Headers: []string{"B"}}},
		"one header, and more": {redaction{Headers: []string{"B"}}, redaction{Headers: []string{"A"}}, redaction{Body: true, Headers: []string{"A", "B"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			box := &mailbox{answer: func(int) posthaste.Outcome { return ok }}
			inWorld(t, box, engine.Options{}, func(w *world) {
				w.publish(engine.Publication{Settings: posthaste.Settings{
					Redact:   test.source,
					Callback: &posthaste.Callback{URL: "http://back.example/", Settings: posthaste.Settings{Redact: test.own}},
				}})
				w.pass(time.Second)
				if diff := cmp.Diff(test.want, box.callbacks[0].Redact, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("redaction of the callback (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestCallbackIsNotRedacted checks that a callback, which is a delivery, tells the
// values that readers do not see (contract, U-60).
func TestCallbackIsNotRedacted(t *testing.T) {
	box := &mailbox{answer: func(int) posthaste.Outcome { return ok }}
	inWorld(t, box, engine.Options{}, func(w *world) {
		settings := posthaste.Settings{
			Header:   http.Header{"X-Secret": {"s3cret"}},
			Redact:   posthaste.Redaction{Body: true, AllHeaders: true},
			Callback: &posthaste.Callback{URL: "http://back.example/"},
		}
		w.publish(engine.Publication{Body: []byte("hi"), Settings: settings})
		w.pass(time.Second)
		var told struct {
			SourceHeader http.Header `json:"sourceHeader"`
			SourceBody   []byte      `json:"sourceBody"`
		}
		if err := json.Unmarshal(box.callbacks[0].Body, &told); err != nil {
			t.Fatal(err)
		}
		if told.SourceHeader.Get("X-Secret") != "s3cret" || string(told.SourceBody) != "hi" {
			t.Errorf("callback %s, want the originals", box.callbacks[0].Body)
		}
	})
}

// Contract, messages 2.9 and decision 1.
func TestRetryDeadLetter(t *testing.T) {
	box := &mailbox{answer: func(int) posthaste.Outcome { return broken }}
	inWorld(t, box, engine.Options{}, func(w *world) {
		settings := retries(0)
		settings.Header, settings.Labels = http.Header{"X-A": {"1"}, "X-B": {"1"}}, []string{"l"}
		settings.Dialect = posthaste.DialectService
		failed := w.publish(engine.Publication{Body: []byte("hi"), Settings: settings})
		w.pass(time.Second)
		page, err := w.DeadLetters(w.t.Context(), user, store.DeadLetterQuery{
			Filter: posthaste.Filter{Labels: []string{"l"}, Statuses: []int{500}}, High: posthaste.MaxPosition, Limit: 10,
		})
		if err != nil || len(page.DeadLetters) != 1 || page.DeadLetters[0].Message.ID != failed {
			t.Fatalf("dead letters %+v, %v; want the failed message", page, err)
		}
		id := page.DeadLetters[0].ID
		box.answer = func(int) posthaste.Outcome { return ok }
		overrides := posthaste.Overrides{Delay: time.Minute, Settings: posthaste.Settings{Header: http.Header{"X-B": {"2"}}}}
		results, err := w.RetryDeadLetters(w.t.Context(), user, []posthaste.DeadLetterID{id, 1}, overrides)
		if err != nil || len(results) != 1 || results[0].Message == nil {
			t.Fatalf("results %+v, %v; want one message", results, err)
		}
		m := results[0].Message
		w.ids = append(w.ids, m.ID)
		want := http.Header{"X-A": {"1"}, "X-B": {"2"}}
		if diff := cmp.Diff(want, m.Header); diff != "" || string(m.Body) != "hi" || m.ID == failed || m.Dialect != posthaste.DialectService {
			t.Errorf("retried as %+v, header (-want +got):\n%s", m, diff)
		}
		if _, err := w.DeadLetter(w.t.Context(), user, id); err != store.ErrNotFound {
			t.Errorf("the dead letter is still there: %v", err)
		}
		w.pass(time.Hour)
		w.wantLog(m.ID, "1s CREATED next 1m1s", "1m1s ACTIVE", "1m1s DELIVERED")
	})
}
