package gosdk

import (
	"slices"
	"testing"

	qstash "github.com/upstash/qstash-go"
)

func TestQueue(t *testing.T) {
	const name = "go-queue"
	check(t, client.Queues().Upsert(qstash.Queue{Name: name, Parallelism: 3}))
	queue := must(client.Queues().Get(name))(t)
	equal(t, "the name", queue.Name, name)
	equal(t, "the parallelism", queue.Parallelism, 3)
	equal(t, "paused", queue.IsPaused, false)

	check(t, client.Queues().Upsert(qstash.Queue{Name: name}))
	equal(t, "the parallelism that was not given", must(client.Queues().Get(name))(t).Parallelism, 3)
	queues := must(client.Queues().List())(t)
	if !slices.ContainsFunc(queues, func(q qstash.QueueWithLag) bool { return q.Name == name && q.Parallelism == 3 }) {
		t.Errorf("the list %+v lacks %s", queues, name)
	}

	check(t, client.Queues().Delete(name))
	_, err := client.Queues().Get(name)
	checkError(t, err, name)
}

func TestQueuePauses(t *testing.T) {
	s := newSink(t)
	const name = "go-pause"
	check(t, client.Queues().Upsert(qstash.Queue{Name: name, Parallelism: 1}))
	check(t, client.Queues().Pause(name))
	receipt := must(client.Enqueue(qstash.EnqueueOptions{Queue: name, PublishOptions: qstash.PublishOptions{Url: s.url}}))(t)
	queue := must(client.Queues().Get(name))(t)
	equal(t, "paused", queue.IsPaused, true)
	equal(t, "the lag", queue.Lag, int64(1))
	check(t, client.Queues().Resume(name))
	equal(t, "the story", states(t, receipt.MessageId), "CREATED ACTIVE DELIVERED")
	check(t, client.Queues().Delete(name))
}
