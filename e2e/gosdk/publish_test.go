package gosdk

import (
	"strconv"
	"testing"
	"time"

	qstash "github.com/upstash/qstash-go"
)

func TestPublish(t *testing.T) {
	s := newSink(t)
	receipt := must(client.Publish(qstash.PublishOptions{
		Url:         s.url + "/orders?from=app",
		Body:        "grüß Gott",
		Method:      "PUT",
		ContentType: "text/x-greeting",
		Headers:     map[string]string{"X-Tenant": "acme"},
		Retries:     qstash.RetryCount(0),
		Timeout:     "30s",
	}))(t)
	equal(t, "the story", states(t, receipt.MessageId), "CREATED ACTIVE DELIVERED")
	got := s.delivered(t, receipt.MessageId)
	equal(t, "the delivery", [3]string{got.method, got.path, got.body}, [3]string{"PUT", "/orders?from=app", "grüß Gott"})
	equal(t, "the content type", got.header.Get("Content-Type"), "text/x-greeting")
	equal(t, "the forwarded header", got.header.Get("X-Tenant"), "acme")
}

func TestPublishJSON(t *testing.T) {
	s := newSink(t)
	receipt := must(client.PublishJSON(qstash.PublishJSONOptions{Url: s.url, Body: map[string]any{"order": 7}}))(t)
	got := s.delivered(t, receipt.MessageId)
	equal(t, "the body", got.body, `{"order":7}`)
	equal(t, "the content type", got.header.Get("Content-Type"), "application/json")
}

func TestPublishWaits(t *testing.T) {
	s := newSink(t)
	notBefore := time.Now().Add(time.Hour).Unix()
	later := must(client.Publish(qstash.PublishOptions{Url: s.url, NotBefore: strconv.FormatInt(notBefore, 10)}))(t)
	equal(t, "notBefore", must(client.Messages().Get(later.MessageId))(t).NotBefore, notBefore*1000)
	delayed := must(client.Publish(qstash.PublishOptions{Url: s.url, Delay: "1h"}))(t)
	message := must(client.Messages().Get(delayed.MessageId))(t)
	equal(t, "the delay", message.NotBefore-message.CreatedAt, time.Hour.Milliseconds())
}

func TestPublishOnce(t *testing.T) {
	s := newSink(t)
	tests := map[string]qstash.PublishOptions{
		"by id":      {Url: s.url, DeduplicationId: "order-7"},
		"by content": {Url: s.url, Body: "order 7", ContentBasedDeduplication: true},
	}
	for name, options := range tests {
		t.Run(name, func(t *testing.T) {
			first := must(client.Publish(options))(t)
			equal(t, "the first mark", first.Deduplicated, false)
			second := must(client.Publish(options))(t)
			equal(t, "the second receipt", second, qstash.PublishOrEnqueueResponse{MessageId: first.MessageId, Deduplicated: true})
		})
	}
}

func TestPublishIsRefused(t *testing.T) {
	s := newSink(t)
	tests := map[string]struct {
		options qstash.PublishOptions
		says    string
	}{
		"a URL without a scheme":   {qstash.PublishOptions{Url: "example.com/path"}, "add http:// or https://"},
		"a delay that is none":     {qstash.PublishOptions{Url: s.url, Delay: "soon"}, "soon"},
		"a method that is unknown": {qstash.PublishOptions{Url: s.url, Method: "BREW"}, "BREW"},
		"a hosted model":           {qstash.PublishOptions{Api: "llm"}, "llm"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := client.Publish(test.options)
			checkError(t, err, test.says)
		})
	}
}

func TestEnqueue(t *testing.T) {
	s := newSink(t)
	plain := must(client.Enqueue(qstash.EnqueueOptions{
		Queue:          "go-enqueue",
		PublishOptions: qstash.PublishOptions{Url: s.url, Body: "one"},
	}))(t)
	asJSON := must(client.EnqueueJSON(qstash.EnqueueJSONOptions{
		Queue:              "go-enqueue",
		PublishJSONOptions: qstash.PublishJSONOptions{Url: s.url, Body: map[string]any{"order": 7}},
	}))(t)
	for id, body := range map[string]string{plain.MessageId: "one", asJSON.MessageId: `{"order":7}`} {
		got := s.delivered(t, id)
		equal(t, "the body", got.body, body)
		equal(t, "the queue", got.header.Get("Upstash-Queue-Name"), "go-enqueue")
		equal(t, "the queue of the message", must(client.Messages().Get(id))(t).Queue, "go-enqueue")
	}
}

func TestBatch(t *testing.T) {
	s := newSink(t)
	group := newGroup(t, "go-batch", s)
	results := must(client.Batch([]qstash.BatchOptions{
		{Url: s.url + "/single", Body: "single", Method: "PUT", ContentType: "text/x", Headers: map[string]string{"X-Tenant": "acme"}},
		{UrlGroup: group, Body: "group"},
		{UrlGroup: "nowhere", Body: "lost"},
		{Url: s.url + "/queued", Body: "queued", Queue: "go-batch"},
	}))(t)
	checkBatch(t, s, results, []string{"single", "group", "", "queued"})
	got := s.delivered(t, results[0][0].MessageId)
	equal(t, "the method", got.method, "PUT")
	equal(t, "the headers", [2]string{got.header.Get("Content-Type"), got.header.Get("X-Tenant")}, [2]string{"text/x", "acme"})
	equal(t, "the queue", s.delivered(t, results[3][0].MessageId).header.Get("Upstash-Queue-Name"), "go-batch")
}

func TestBatchJSON(t *testing.T) {
	s := newSink(t)
	group := newGroup(t, "go-batch-json", s)
	results := must(client.BatchJSON([]qstash.BatchJSONOptions{
		{Url: s.url, Body: map[string]any{"order": 7}},
		{UrlGroup: group, Body: map[string]any{"order": 8}},
		{Url: s.url, Body: map[string]any{"order": 9}, Queue: "go-batch"},
	}))(t)
	checkBatch(t, s, results, []string{`{"order":7}`, `{"order":8}`, `{"order":9}`})
}

// checkBatch compares what arrives with the bodies of the items; an item with no
// body is one that was refused. The second item goes to a group of two.
func checkBatch(t *testing.T, s *sink, results [][]qstash.PublishOrEnqueueResponse, bodies []string) {
	t.Helper()
	equal(t, "the number of results", len(results), len(bodies))
	equal(t, "the number of messages of the group", len(results[1]), 2)
	for i, receipts := range results {
		if bodies[i] == "" {
			equal(t, "the refused item", receipts, []qstash.PublishOrEnqueueResponse{{}})
			continue
		}
		for _, receipt := range receipts {
			equal(t, "the body", s.delivered(t, receipt.MessageId).body, bodies[i])
		}
	}
}
