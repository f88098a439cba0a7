package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// bounded are the ways by which a text enters that a store makes a key or an index term of.
// It stands where the braces are, encoded as the place asks for.
var bounded = []struct {
	name, method, path, body string
	most                     int    // bytes of the text
	named                    string // by the sentence that refuses more
}{
	{"flow-control key", "POST", "/v2/publish/https://example.com?upstash-flow-control-value=rate%3d1&upstash-flow-control-key={query}", "", 256, "Upstash-Flow-Control-Key"},
	{"flow-control key of a batch", "POST", "/v2/batch", `[{"destination":"https://example.com","headers":{"Upstash-Flow-Control-Key":"{json}","Upstash-Flow-Control-Value":"rate=1"}}]`, 256, "Upstash-Flow-Control-Key"},
	{"flow-control key of a callback", "POST", "/v2/publish/https://example.com?upstash-callback=https://example.com&upstash-callback-flow-control-value=rate%3d1&upstash-callback-flow-control-key={query}", "", 256, "Upstash-Callback-Flow-Control-Key"},
	{"flow-control key of a failure callback", "POST", "/v2/publish/https://example.com?upstash-failure-callback=https://example.com&upstash-failure-callback-flow-control-value=rate%3d1&upstash-failure-callback-flow-control-key={query}", "", 256, "Upstash-Failure-Callback-Flow-Control-Key"},
	{"flow-control key of a schedule", "POST", "/v2/schedules/https://example.com?upstash-cron=*+*+*+*+*&upstash-schedule-id=s&upstash-flow-control-value=rate%3d1&upstash-flow-control-key={query}", "", 256, "Upstash-Flow-Control-Key"},
	{"flow-control key of a group", "PATCH", "/v2/topics/g", `{"headers":{"Upstash-Flow-Control-Key":["{json}"],"Upstash-Flow-Control-Value":["rate=1"]}}`, 256, "Upstash-Flow-Control-Key"},
	{"flow-control key of a run", "POST", "/v2/trigger/https://example.com/workflow?upstash-flow-control-value=rate%3d1&upstash-flow-control-key={query}", "", 256, "Upstash-Flow-Control-Key"},
	{"flow-control key of runs", "POST", "/v2/batch/trigger", `[{"destination":"https://example.com/workflow","headers":{"Upstash-Flow-Control-Key":"{json}","Upstash-Flow-Control-Value":"rate=1"}}]`, 256, "Upstash-Flow-Control-Key"},
	{"flow-control key of a retry", "POST", "/v2/dlq/retry?label=none&upstash-flow-control-key={query}", "", 256, "Upstash-Flow-Control-Key"},
	{"flow-control key of a restart", "POST", "/v2/workflows/dlq/restart?label=none&upstash-flow-control-key={query}", "", 256, "Upstash-Flow-Control-Key"},
	{"flow-control key of a bulk action", "POST", "/v2/workflows/dlq/restart?label=none&async=true&upstash-flow-control-key={query}", "", 256, "Upstash-Flow-Control-Key"},
	{"flow-control key that is paused", "POST", "/v2/flowControl/{path}/pause", "", 256, "flow-control key"},
	{"flow-control key that is pinned", "POST", "/v2/flowControl/{path}/pin?rate=1", "", 256, "flow-control key"},
	{"deduplication id", "POST", "/v2/publish/https://example.com?upstash-deduplication-id={query}", "", 1024, "Upstash-Deduplication-Id"},
	{"deduplication id of a schedule", "POST", "/v2/schedules/https://example.com?upstash-cron=*+*+*+*+*&upstash-schedule-id=s&upstash-deduplication-id={query}", "", 1024, "Upstash-Deduplication-Id"},
	{"label", "POST", "/v2/publish/https://example.com?upstash-label={query}", "", 256, "Upstash-Label"},
	{"host", "POST", "/v2/publish/https://{path}/a", "", 253, "host of destination"},
	{"host of a batch", "POST", "/v2/batch", `[{"destination":"https://{json}:1"}]`, 253, "host of destination"},
	{"host of a callback", "POST", "/v2/publish/https://example.com?upstash-callback=https://{query}", "", 253, "host of Upstash-Callback"},
	{"host of a failure callback", "POST", "/v2/publish/https://example.com?upstash-failure-callback=https://{query}", "", 253, "host of Upstash-Failure-Callback"},
	{"host of a schedule", "POST", "/v2/schedules/https://{path}?upstash-cron=*+*+*+*+*&upstash-schedule-id=s", "", 253, "host of destination"},
	{"host of an endpoint", "POST", "/v2/topics/g/endpoints", `{"endpoints":[{"name":"n","url":"https://{json}"}]}`, 253, "host of endpoint"},
	{"host of a workflow", "POST", "/v2/trigger/https://{path}/workflow", "", 253, "host of destination"},
	{"URL", "POST", "/v2/batch", `[{"destination":"https://example.com/{json}"}]`, 16384 - len("https://example.com/"), "destination"},
	{"queue", "POST", "/v2/enqueue/{path}/https://example.com", "", 256, "queue name"},
	{"queue of a batch", "POST", "/v2/batch", `[{"destination":"https://example.com","queue":"{json}"}]`, 256, "queue name"},
	{"queue that is made", "POST", "/v2/queues", `{"queueName":"{json}"}`, 256, "queueName"},
	{"queue of a schedule", "POST", "/v2/schedules/https://example.com?upstash-cron=*+*+*+*+*&upstash-schedule-id=s&upstash-queue-name={query}", "", 256, "Upstash-Queue-Name"},
	{"schedule", "POST", "/v2/schedules/https://example.com?upstash-cron=*+*+*+*+*&upstash-schedule-id={query}", "", 256, "Upstash-Schedule-Id"},
	{"group", "POST", "/v2/topics/{path}/endpoints", `{"endpoints":[{"url":"https://example.com"}]}`, 256, "URL group name"},
	{"endpoint", "POST", "/v2/topics/g/endpoints", `{"endpoints":[{"name":"{json}","url":"https://example.com"}]}`, 256, "endpoint name"},
	{"run", "POST", "/v2/trigger/https://example.com/workflow?upstash-workflow-runid={query}", "", 256, "Upstash-Workflow-Runid"},
	{"event", "POST", "/v2/notify/{path}", "", 256, "event id"},
}

// TestEveryTextIsBounded sends texts of the most bytes that are accepted and of a byte more
// through every way by which they enter, and one of the size that a 16-bit length cannot
// hold: what is too long is refused with a sentence that names it, and the store opens
// afterwards and is whole (contract, decision 35).
func TestEveryTextIsBounded(t *testing.T) {
	for _, way := range bounded {
		t.Run(way.name, func(t *testing.T) {
			disk := vfs.NewMem()
			inWorldOf(t, setting{open: diskOf(disk), maxBody: 1 << 20, maxBatch: 1 << 20}, func(w *world) {
				furnish(w)
				if answer, refused := through(w, way.method, way.path, way.body, strings.Repeat("x", way.most)); refused {
					t.Errorf("%d bytes are refused: %s", way.most, answer)
				}
				for _, size := range []int{way.most + 1, 1 << 16} {
					named := way.named
					if size > posthaste.MaxURLLen {
						named = strings.TrimPrefix(named, "host of ")
					}
					answer, refused := through(w, way.method, way.path, way.body, strings.Repeat("x", size))
					if !refused || !strings.Contains(answer, named+" ") || len(answer) > 1000 {
						t.Errorf("%d bytes: %.1000s", size, answer)
					}
				}
			})
			checkWhole(t, disk)
		})
	}
}

// diskOf is a backend with the embedded store on a disk.
func diskOf(disk vfs.FS) backend {
	return func(t *testing.T) store.Store {
		t.Helper()
		s, err := ledger.Over(lsm.Open("data", lsm.Options{FS: disk}))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// checkWhole opens the store on a disk once more, and requires that its check finds nothing.
func checkWhole(t *testing.T, disk vfs.FS) {
	t.Helper()
	s, err := ledger.Over(lsm.Open("data", lsm.Options{FS: disk}))
	if err != nil {
		t.Fatalf("the store does not open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := lsm.Check("data", lsm.Options{FS: disk})
	if err != nil || len(report.Problems) > 0 {
		t.Fatalf("the store is not whole: %v, %q", err, report.Problems)
	}
}

// TestBatchFailsInPart checks that our own failure is that of the items that it concerns once
// something of a batch is stored: who is told that all has failed sends all of it again.
func TestBatchFailsInPart(t *testing.T) {
	onFire := errors.New("disk on fire")
	const item = `{"destination":"https://example.com","body":"1"}`
	for _, test := range []struct {
		name   string
		items  int
		answer func(e *batchEngine) func(engine.Publication) engine.Result
		stored int
	}{
		{"a later chunk", 601, func(e *batchEngine) func(engine.Publication) engine.Result {
			return func(p engine.Publication) engine.Result {
				e.fail = onFire // from the next chunk on
				return accepts(p)
			}
		}, 500},
		{"one item", 3, func(*batchEngine) func(engine.Publication) engine.Result {
			seen := 0
			return func(p engine.Publication) engine.Result {
				if seen++; seen == 2 {
					return engine.Result{Err: onFire}
				}
				return accepts(p)
			}
		}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := &batchEngine{}
			e.answer = test.answer(e)
			items := make([]string, test.items)
			for i := range items {
				items[i] = item
			}
			status, body := postBatch(t, e, items)
			if status != http.StatusOK {
				t.Fatalf("%d %.300s", status, body)
			}
			var answers []struct{ MessageID, Error string }
			if err := json.Unmarshal([]byte(body), &answers); err != nil || len(answers) != len(items) {
				t.Fatalf("%d answers to %d items, %v", len(answers), len(items), err)
			}
			stored, refused := 0, 0
			for _, answer := range answers {
				switch {
				case answer.MessageID != "":
					stored++
				case strings.Contains(answer.Error, "the server failed"):
					refused++
				}
			}
			if stored != test.stored || stored+refused != len(items) {
				t.Errorf("%d items are stored and %d refused", stored, refused)
			}
		})
	}
}

// TestBatchRefusesTheLongItemAlone has an item with a random key of 5 kB in the second chunk
// of a batch.
func TestBatchRefusesTheLongItemAlone(t *testing.T) {
	inLargeWorld(t, func(w *world) {
		items := make([]string, 601)
		for i := range items {
			items[i] = fmt.Sprintf(`{"destination":"https://example.com/%d"}`, i)
		}
		items[600] = fmt.Sprintf(`{"destination":"https://example.com","headers":{"Upstash-Flow-Control-Key":%q,"Upstash-Flow-Control-Value":"rate=1"}}`,
			url.QueryEscape(strings.Repeat("key", 5000/3)))
		response := do(w.handler, newRequest("POST", "/v2/batch", strings.NewReader("["+strings.Join(items, ",")+"]")))
		var answers []struct{ MessageID, Error string }
		if err := json.Unmarshal(response.Body.Bytes(), &answers); response.Code != http.StatusOK || err != nil || len(answers) != len(items) {
			t.Fatalf("%d, %d answers, %v", response.Code, len(answers), err)
		}
		for i, answer := range answers {
			if refused := i == 600; refused != (answer.Error != "") || refused != (answer.MessageID == "") {
				t.Errorf("item %d: %+v", i, answer)
			}
		}
	})
}
