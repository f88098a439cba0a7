package gosdk

import (
	"slices"
	"testing"
	"time"

	qstash "github.com/upstash/qstash-go"
)

// fail publishes a message that fails at once and returns its dead letter.
func fail(t *testing.T, s *sink, queue string) qstash.DlqMessage {
	t.Helper()
	receipt := must(client.Enqueue(qstash.EnqueueOptions{
		Queue:          queue,
		PublishOptions: qstash.PublishOptions{Url: s.url + "/broken", Body: "order", Retries: qstash.RetryCount(0)},
	}))(t)
	equal(t, "the story", states(t, receipt.MessageId), "CREATED ACTIVE ERROR FAILED")
	letters, cursor, err := client.Dlq().List(qstash.ListDlqOptions{Filter: qstash.DlqFilter{MessageId: receipt.MessageId}})
	check(t, err)
	equal(t, "the cursor", cursor, "")
	if len(letters) != 1 {
		t.Fatalf("the DLQ has %d entries of %s", len(letters), receipt.MessageId)
	}
	return letters[0]
}

func TestDLQ(t *testing.T) {
	s := newSink(t)
	letter := fail(t, s, "go-dlq")
	got := must(client.Dlq().Get(letter.DlqId))(t)
	equal(t, "the dead letter", got, letter)
	equal(t, "the message", [4]string{got.Url, got.Body, got.Queue, got.Method}, [4]string{s.url + "/broken", "order", "go-dlq", "POST"})
	equal(t, "the status of the answer", got.ResponseStatus, 500)
	equal(t, "the body of the answer", got.ResponseBody, "broken\n")
	equal(t, "a header of the answer", got.ResponseHeaders.Get("Content-Type"), "text/plain; charset=utf-8")

	check(t, client.Dlq().Delete(letter.DlqId))
	checkError(t, client.Dlq().Delete(letter.DlqId), letter.DlqId)
	_, err := client.Dlq().Get(letter.DlqId)
	checkError(t, err, letter.DlqId)
}

func TestDLQList(t *testing.T) {
	s := newSink(t)
	letter := fail(t, s, "go-dlq-list")
	url := letter.Url // that of this test's sink alone
	tests := map[string]struct {
		filter qstash.DlqFilter
		found  bool
	}{
		"url":             {qstash.DlqFilter{Url: url}, true},
		"queue":           {qstash.DlqFilter{Url: url, Queue: "go-dlq-list"}, true},
		"other queue":     {qstash.DlqFilter{Url: url, Queue: "go-dlq"}, false},
		"status":          {qstash.DlqFilter{Url: url, ResponseStatus: 500}, true},
		"other status":    {qstash.DlqFilter{Url: url, ResponseStatus: 503}, false},
		"caller":          {qstash.DlqFilter{Url: url, CallerIP: "127.0.0.1"}, true},
		"other caller":    {qstash.DlqFilter{Url: url, CallerIP: "203.0.113.1"}, false},
		"other group":     {qstash.DlqFilter{Url: url, UrlGroup: "group"}, false},
		"other schedule":  {qstash.DlqFilter{Url: url, ScheduleId: "scd_1"}, false},
		"range":           {qstash.DlqFilter{Url: url, FromDate: time.Now().Add(-time.Minute), ToDate: time.Now().Add(time.Minute)}, true},
		"earlier than it": {qstash.DlqFilter{Url: url, ToDate: time.Now().Add(-time.Minute)}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			letters, _, err := client.Dlq().List(qstash.ListDlqOptions{Filter: test.filter})
			check(t, err)
			equal(t, "found", len(letters) == 1, test.found)
		})
	}
}

func TestDLQPages(t *testing.T) {
	s := newSink(t)
	var want []string
	for range 3 {
		want = append(want, fail(t, s, "go-dlq-pages").DlqId)
	}
	slices.Reverse(want)
	var got []string
	options := qstash.ListDlqOptions{Count: 2, Filter: qstash.DlqFilter{Queue: "go-dlq-pages"}}
	for {
		letters, cursor, err := client.Dlq().List(options)
		check(t, err)
		for _, letter := range letters {
			got = append(got, letter.DlqId)
		}
		if options.Cursor = cursor; cursor == "" {
			break
		}
	}
	equal(t, "the pages", got, want)
	equal(t, "the number deleted", must(client.Dlq().DeleteMany(append(want, "1-1")))(t), 3)
	equal(t, "the number deleted again", must(client.Dlq().DeleteMany(want))(t), 0)
}
