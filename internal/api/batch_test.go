package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"posthaste"
	"posthaste/internal/api"
	"posthaste/internal/engine"
)

// batchEngine is an api.Engine for batches, which answers item by item.
type batchEngine struct {
	api.Engine
	chunks []int // the sizes of the batches it was given
	asked  int   // for a URL group
	fail   error // of every batch
	answer func(p engine.Publication) engine.Result
	group  func(name string) (*posthaste.URLGroup, error)
}

func (e *batchEngine) PublishBatch(_ context.Context, _ string, publications []engine.Publication) ([]engine.Result, error) {
	e.chunks = append(e.chunks, len(publications))
	if e.fail != nil {
		return nil, e.fail
	}
	results := make([]engine.Result, len(publications))
	for i, p := range publications {
		results[i] = e.answer(p)
	}
	return results, nil
}

func (e *batchEngine) URLGroup(_ context.Context, _, name string) (*posthaste.URLGroup, error) {
	e.asked++
	return e.group(name)
}

// accepts answers an item with the id that its body numbers.
func accepts(p engine.Publication) engine.Result {
	var n byte
	_, _ = fmt.Sscan(string(p.Body), &n)
	return engine.Result{Receipts: []engine.Receipt{{MessageID: messageID(n), URL: p.Destination}}}
}

func postBatch(t *testing.T, e *batchEngine, items []string) (int, string) {
	t.Helper()
	handler := newSurface(t, &published{}, func(o *api.Options) { o.Engine = e })
	response := do(handler, newRequest("POST", "/v2/batch", strings.NewReader("["+strings.Join(items, ",")+"]")))
	return response.Code, response.Body.String()
}

// TestBatchInChunks checks that a long batch is published piece by piece and
// answered as a whole, in order.
func TestBatchInChunks(t *testing.T) {
	e := &batchEngine{answer: accepts}
	var items []string
	for i := range 1200 {
		item := fmt.Sprintf(`{"destination":"https://example.com","body":"%d"}`, i%250)
		if i%100 == 99 {
			item = `{"destination":"ftp://example.com"}`
		}
		items = append(items, item)
	}
	status, body := postBatch(t, e, items)
	if status != http.StatusOK || fmt.Sprint(e.chunks) != "[495 495 198]" {
		t.Fatalf("status %d, chunks %v", status, e.chunks)
	}
	var answers []struct {
		MessageID posthaste.MessageID `json:"messageId"`
		Error     string              `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &answers); err != nil || len(answers) != len(items) {
		t.Fatalf("%d answers to %d items, %v", len(answers), len(items), err)
	}
	for i, answer := range answers {
		if refused := i%100 == 99; refused != (answer.Error != "") || !refused && answer.MessageID != messageID(byte(i%250)) {
			t.Errorf("answer %d is %+v", i, answer)
		}
	}
}

// TestBatchFails checks that our own failures are not those of an item.
func TestBatchFails(t *testing.T) {
	onFire := errors.New("disk on fire")
	url, group := `{"destination":"https://example.com"}`, `{"destination":"orders"}`
	tests := []struct {
		name   string
		engine batchEngine
		items  []string
	}{
		{"the whole", batchEngine{fail: onFire}, []string{url}},
		{"the first of several chunks", batchEngine{fail: onFire}, strings.Split(strings.Repeat(url+" ", 501), " ")[:501]},
		{"one result", batchEngine{answer: func(engine.Publication) engine.Result { return engine.Result{Err: onFire} }}, []string{url}},
		{"a result without receipt", batchEngine{answer: func(engine.Publication) engine.Result { return engine.Result{} }}, []string{url}},
		{"a group that cannot be read", batchEngine{
			answer: accepts, group: func(string) (*posthaste.URLGroup, error) { return nil, onFire }}, []string{url, group}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if status, body := postBatch(t, &test.engine, test.items); status != http.StatusInternalServerError {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}

// TestBatchBoundsHeaders has items with headers of the size that a request may have, and
// of a byte more.
func TestBatchBoundsHeaders(t *testing.T) {
	const name, destination = "Upstash-Forward-Large", "https://example.com"
	item := func(size int) string {
		return fmt.Sprintf(`{"destination":%q,"headers":{%q:%q},"body":"1"}`, destination, name, strings.Repeat("x", size-len(name)))
	}
	status, body := postBatch(t, &batchEngine{answer: accepts}, []string{item(api.MaxHeader), item(api.MaxHeader + 1)})
	want := fmt.Sprintf(`[{"messageId":%q},{"error":"the headers of the message for \"%s\" have 262145 bytes, at most 262144 are accepted"}]`,
		messageID(1), destination)
	if status != http.StatusOK || strings.TrimSpace(body) != want {
		t.Errorf("%d %s, want %s", status, body, want)
	}
}

// TestBatchAsksForAGroupOnce checks that a group that many items name is read
// once.
func TestBatchAsksForAGroupOnce(t *testing.T) {
	e := &batchEngine{answer: accepts, group: func(name string) (*posthaste.URLGroup, error) {
		return &posthaste.URLGroup{Name: name}, nil
	}}
	item := `{"destination":"orders","body":"1"}`
	if status, body := postBatch(t, e, []string{item, item, item}); status != http.StatusOK || e.asked != 1 {
		t.Errorf("asked %d times: %d %s", e.asked, status, body)
	}
}

// TestBatchWithABodyLimit checks the bound of a batch that is larger than one
// message may be, and that options cannot lift it.
func TestBatchWithABodyLimit(t *testing.T) {
	for _, test := range []struct {
		name     string
		maxBatch int64
		size     int64
		want     int
	}{
		{"as configured", 500, 501, http.StatusRequestEntityTooLarge},
		{"by default", 0, api.DefaultMaxBatch + 1, http.StatusRequestEntityTooLarge},
		{"more than there can be", 1 << 40, api.DefaultMaxBatch + 1, http.StatusRequestEntityTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			handler := newSurface(t, &published{}, func(o *api.Options) { o.MaxBatch = test.maxBatch })
			r := newRequest("POST", "/v2/batch", &countingReader{})
			r.ContentLength = test.size
			if got := do(handler, r).Code; got != test.want {
				t.Errorf("status = %d, want %d", got, test.want)
			}
		})
	}
}

func BenchmarkBatch(b *testing.B) {
	e := &batchEngine{answer: accepts}
	handler := api.New(api.Options{Authenticator: fakeTokens{}, Engine: e})
	item := `{"destination":"https://example.com/in","headers":{"content-type":"application/json","upstash-method":"POST"},"body":"` +
		strings.Repeat("x", 512) + `"}`
	body := "[" + strings.Repeat(item+",", 999) + item + "]"
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(discard{http.Header{}}, newRequest("POST", "/v2/batch", strings.NewReader(body)))
	}
}

// TestBatchTrace checks that the items of a batch are part of its trace, unless they say
// of which.
func TestBatchTrace(t *testing.T) {
	const outer, own = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var got []posthaste.TraceContext
	e := &batchEngine{answer: func(p engine.Publication) engine.Result {
		got = append(got, p.Trace)
		return accepts(p)
	}}
	handler := newSurface(t, &published{}, func(o *api.Options) { o.Engine = e })
	r := newRequest("POST", "/v2/batch", strings.NewReader(
		`[{"destination":"https://example.com","body":"1"},{"destination":"https://example.com","body":"2","headers":{"traceparent":"`+own+`"}}]`))
	r.Header.Set("Traceparent", outer)
	do(handler, r)
	if len(got) != 2 || got[0] != outer || got[1] != own {
		t.Errorf("items are part of %q", got)
	}
}

// TestTicksBeginTraces checks that what a schedule publishes is not part of the trace
// of whoever made the schedule.
func TestTicksBeginTraces(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send([]byte("POST /v2/schedules/https://a.example/tick HTTP/1.1\nUpstash-Cron: * * * * *\nUpstash-Schedule-Id: s\n" +
			"Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n"))
		schedule, err := w.store.Schedule(t.Context(), "ann", "s")
		if err != nil || schedule.Trace != "" {
			t.Errorf("the schedule is part of %q, %v", schedule.Trace, err)
		}
	})
}

// TestBadItemThatNamesNoRun has items that cannot be accepted, in which the header of runs
// is a text and no header: they are answered in their place, beside one that is taken in.
func TestBadItemThatNamesNoRun(t *testing.T) {
	const fine = `{"destination":"https://example.com"}`
	tests := []struct {
		name, item string
		status     int
	}{
		{"in the body", `{"destination":"https://example.com","queue":"bad name","body":"about upstash-workflow-runid"}`, http.StatusOK},
		{"in the value of a header", `{"destination":"https://example.com","queue":"bad name","headers":{"A":"Upstash-Workflow-RunId"}}`, http.StatusOK},
		{"in what is no item", `"Upstash-Workflow-RunId"`, http.StatusOK},
		{"as a header", `{"destination":"https://example.com","queue":"bad name","headers":{"upstash-workflow-runid":"r"}}`, http.StatusPreconditionFailed},
		{"as a header beside what cannot be read", `{"destination":1,"headers":{"Upstash-Workflow-RunId":"r"}}`, http.StatusPreconditionFailed},
		{"as an escaped header", `{"destination":"https://example.com","queue":"bad name","headers":{"Upstash-\u0057orkflow-RunId":"r"}}`, http.StatusPreconditionFailed},
	}
	inWorld(t, func(w *world) {
		for _, test := range tests {
			status, body := w.ask(call{method: "POST", path: "/v2/batch", body: "[" + fine + "," + test.item + "]"}, "full")
			if accepted := strings.HasPrefix(body, `[{"messageId":`); status != test.status || accepted != (status == http.StatusOK) {
				t.Errorf("%s: %d %s, want %d", test.name, status, body, test.status)
			}
		}
	})
}
