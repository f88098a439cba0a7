package gosdk

import (
	"net/http"
	"testing"
	"time"

	qstash "github.com/upstash/qstash-go"
)

// wait publishes messages that wait and returns their ids.
func wait(t *testing.T, count int) []string {
	t.Helper()
	var ids []string
	for range count {
		ids = append(ids, must(client.Publish(qstash.PublishOptions{Url: "https://example.com", Delay: "1h"}))(t).MessageId)
	}
	return ids
}

func TestMessagesGet(t *testing.T) {
	receipt := must(client.Publish(qstash.PublishOptions{
		Url:             "https://example.com/orders?from=app",
		Body:            "order",
		Method:          "PUT",
		ContentType:     "text/x",
		Headers:         map[string]string{"x-tenant": "acme"},
		Retries:         qstash.RetryCount(0),
		Callback:        "https://example.com/callback",
		FailureCallback: "https://example.com/failed",
		Delay:           "1h",
	}))(t)
	message := must(client.Messages().Get(receipt.MessageId))(t)
	equal(t, "the message", message, qstash.Message{
		MessageId:       receipt.MessageId,
		Url:             "https://example.com/orders?from=app",
		Body:            "order",
		Method:          "PUT",
		Header:          http.Header{"Content-Type": {"text/x"}, "X-Tenant": {"acme"}},
		MaxRetries:      0,
		Callback:        "https://example.com/callback",
		FailureCallback: "https://example.com/failed",
		CreatedAt:       message.CreatedAt,
		NotBefore:       message.CreatedAt + time.Hour.Milliseconds(),
		CallerIP:        "127.0.0.1",
	})
	_, err := client.Messages().Get("msg_unknown")
	checkError(t, err, "msg_unknown")
}

func TestMessagesCancel(t *testing.T) {
	must(client.Messages().CancelAll())(t)
	ids := wait(t, 5)
	check(t, client.Messages().Cancel(ids[0]))
	equal(t, "the number that CancelMany cancelled", must(client.Messages().CancelMany(ids[:3]))(t), 2)
	equal(t, "the number that CancelAll cancelled", must(client.Messages().CancelAll())(t), 2)
	equal(t, "the number that was left", must(client.Messages().CancelAll())(t), 0)
	for _, id := range ids {
		equal(t, "the story", states(t, id), "CREATED CANCEL_REQUESTED CANCELED")
	}
	checkError(t, client.Messages().Cancel("msg_unknown"), "msg_unknown")
}
