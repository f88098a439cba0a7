package e2e

import (
	"encoding/json"
	"net/http"
	"testing"
)

// batchSize is how many messages the tests send in one request.
const batchSize = 100

// batchItem is a message of a batch.
type batchItem struct {
	Destination string            `json:"destination"`
	Queue       string            `json:"queue,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Body        string            `json:"body,omitempty"`
}

// publishAll publishes messages in batches, one after another, and returns their
// ids in the order of the messages.
func (c *client) publishAll(t *testing.T, items []batchItem) []string {
	t.Helper()
	var ids []string
	for len(items) > 0 {
		size := min(batchSize, len(items))
		body, err := json.Marshal(items[:size])
		if err != nil {
			t.Fatalf("encode a batch: %v", err)
		}
		var results []struct {
			MessageID string `json:"messageId"`
			Error     string `json:"error"`
		}
		if err := c.call(t.Context(), http.MethodPost, "/v2/batch", nil, string(body), &results); err != nil {
			t.Fatalf("publish a batch: %v", err)
		}
		for _, result := range results {
			if result.Error != "" {
				t.Fatalf("publish in a batch: %s", result.Error)
			}
			ids = append(ids, result.MessageID)
		}
		items = items[size:]
	}
	return ids
}

// post calls a path that takes and answers nothing.
func (c *client) post(t *testing.T, path, body string) {
	t.Helper()
	if err := c.call(t.Context(), http.MethodPost, path, nil, body, nil); err != nil {
		t.Fatalf("POST %s: %v", path, err)
	}
}
