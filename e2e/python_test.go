package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"
)

// TestPythonRequests sends what the Python SDK sends where it differs from the
// SDKs that run in other tests: null for what is not given, capital booleans,
// and ids in the body of a DELETE. The answers to those may hold nothing but
// numbers (contract, messages 2.13 and 0.12).
func TestPythonRequests(t *testing.T) {
	m := newMeter(t)
	_, c := startServe(t, t.TempDir(), "--log-level", "error")
	t.Run("batch", func(t *testing.T) { testPythonBatch(t, c, m) })
	t.Run("booleans", func(t *testing.T) { testPythonBooleans(t, c) })
	t.Run("cancel_many and cancel_all", func(t *testing.T) { testPythonCancel(t, c) })
	t.Run("dlq.delete_many", func(t *testing.T) { testPythonDeleteMany(t, c, m) })
}

func testPythonBatch(t *testing.T, c *client, m *meter) {
	body := fmt.Sprintf(`[
		{"destination": "%[1]s/ok/plain", "headers": {}, "body": null, "queue": null},
		{"destination": "%[1]s/ok/queued", "headers": {"Upstash-Content-Based-Deduplication": "True"}, "body": "text", "queue": "python"}
	]`, m.url)
	var receipts []struct {
		MessageID string `json:"messageId"`
	}
	mustCall(t, c, http.MethodPost, "/v2/batch", nil, body, &receipts)
	if len(receipts) != 2 || receipts[0].MessageID == "" || receipts[1].MessageID == "" {
		t.Fatalf("the receipts are %+v", receipts)
	}
	m.waitForDeliveries(t, 2)
}

func testPythonBooleans(t *testing.T, c *client) {
	var receipts [2]struct {
		MessageID    string `json:"messageId"`
		Deduplicated bool   `json:"deduplicated"`
	}
	for i := range receipts {
		mustCall(t, c, http.MethodPost, "/v2/publish/https://example.com",
			map[string]string{"Upstash-Delay": "1h", "Upstash-Content-Based-Deduplication": "True"}, "once", &receipts[i])
	}
	if receipts[1].MessageID != receipts[0].MessageID || !receipts[1].Deduplicated {
		t.Errorf("the second receipt is %+v after %+v", receipts[1], receipts[0])
	}
}

func testPythonCancel(t *testing.T, c *client) {
	cancelAll := func() map[string]int { return counts(t, c, "/v2/messages", "") }
	cancelAll()
	waiting := batchItem{Destination: "https://example.com", Headers: map[string]string{"Upstash-Delay": "1h"}}
	ids := c.publishAll(t, []batchItem{waiting, waiting, waiting})
	got := counts(t, c, "/v2/messages", fmt.Sprintf(`{"messageIds": [%q, %q]}`, ids[0], ids[1]))
	if want := map[string]int{"cancelled": 2}; !maps.Equal(got, want) {
		t.Errorf("cancel_many answers %v, want %v", got, want)
	}
	if got, want := cancelAll(), (map[string]int{"cancelled": 1}); !maps.Equal(got, want) {
		t.Errorf("cancel_all answers %v, want %v", got, want)
	}
}

func testPythonDeleteMany(t *testing.T, c *client, m *meter) {
	c.publishAll(t, []batchItem{{
		Destination: m.url + "/" + answerBroken + "/python",
		Headers:     map[string]string{"Upstash-Retries": "0"},
	}})
	id := c.waitForDeadLetter(t)
	got := counts(t, c, "/v2/dlq", fmt.Sprintf(`{"dlqIds": [%q, "1-1"]}`, id))
	if want := map[string]int{"deleted": 1}; !maps.Equal(got, want) {
		t.Errorf("delete_many answers %v, want %v", got, want)
	}
}

// waitForDeadLetter waits for the DLQ to hold an entry and returns its id.
func (c *client) waitForDeadLetter(t *testing.T) string {
	t.Helper()
	const pause = 20 * time.Millisecond
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pause) {
		var page struct {
			Messages []struct {
				DLQID string `json:"dlqId"`
			} `json:"messages"`
		}
		mustCall(t, c, http.MethodGet, "/v2/dlq", nil, "", &page)
		if len(page.Messages) > 0 {
			return page.Messages[0].DLQID
		}
	}
	t.Fatal("the DLQ stays empty")
	return ""
}

// counts sends a DELETE and returns the numbers that its answer consists of.
func counts(t *testing.T, c *client, path, body string) map[string]int {
	t.Helper()
	var answer map[string]int
	mustCall(t, c, http.MethodDelete, path, nil, body, &answer)
	return answer
}

// mustCall is client.call for calls that must succeed.
func mustCall(t *testing.T, c *client, method, target string, header map[string]string, body string, answer any) {
	t.Helper()
	if err := c.call(t.Context(), method, target, header, body, answer); err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
}
