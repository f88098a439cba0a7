package e2e

import (
	"flag"
	"fmt"
	"testing"
)

var queueMessages = flag.Int("queue-messages", 2000, "how many messages the queue tests enqueue")

// queueName is the queue of these tests, and the lane of their meter.
const queueName = "work"

// TestQueue sends many messages through a queue, of which every fifth fails
// once (contract, messages 6.1). For a long run:
//
//	go test -race -run TestQueue -timeout 1h ./e2e -queue-messages=10000
func TestQueue(t *testing.T) {
	for _, parallelism := range []int{1, 8} {
		for _, deaths := range []int{0, 3} {
			t.Run(fmt.Sprintf("parallelism %d and %d kills", parallelism, deaths), func(t *testing.T) {
				q := newQueueTrial(t, parallelism)
				q.run(deaths)
				q.check(deaths)
			})
		}
	}
}

// queueTrial is a queue from its first message to its last delivery.
type queueTrial struct {
	t           *testing.T
	directory   string
	parallelism int
	meter       *meter
	ids         []string // in the order of acceptance
}

func newQueueTrial(t *testing.T, parallelism int) *queueTrial {
	t.Helper()
	return &queueTrial{t: t, directory: t.TempDir(), parallelism: parallelism, meter: newMeter(t)}
}

// run enqueues the messages, kills the server so many times while it delivers
// them, and waits for the last one.
func (q *queueTrial) run(deaths int) {
	s := launchServe(q.t, q.directory, "--log-level", "error")
	q.enqueue(newClient(s.url(q.t), testToken))
	for i := range deaths {
		q.meter.waitForDeliveries(q.t, (i+1)*len(q.ids)/(deaths+1))
		s.kill(q.t)
		q.meter.nextGeneration(q.t)
		s = launchServe(q.t, q.directory, "--log-level", "error")
		s.url(q.t)
	}
	q.meter.waitForDeliveries(q.t, len(q.ids))
	s.stop(q.t)
}

func (q *queueTrial) enqueue(c *client) {
	c.post(q.t, "/v2/queues", fmt.Sprintf(`{"queueName":%q,"parallelism":%d}`, queueName, q.parallelism))
	items := make([]batchItem, *queueMessages)
	for i := range items {
		kind := answerOK
		if i%5 == 4 {
			kind = answerFlaky
		}
		items[i] = batchItem{
			Destination: fmt.Sprintf("%s/%s/%s/%d", q.meter.url, kind, queueName, i),
			Queue:       queueName,
			Headers:     map[string]string{"Upstash-Retry-Delay": "5"},
		}
	}
	q.ids = c.publishAll(q.t, items)
}

func (q *queueTrial) check(deaths int) {
	q.t.Helper()
	if most := q.meter.mostInFlight(queueName); most > q.parallelism {
		q.t.Errorf("%d attempts were in flight at once, the parallelism is %d", most, q.parallelism)
	}
	arrivals := q.meter.inOrder()
	if q.parallelism == 1 {
		q.checkOrder(arrivals)
	}
	repeated := q.countRepeated(arrivals)
	if limit := deaths * q.parallelism; repeated > limit {
		q.t.Errorf("%d attempts were made again after %d kills, at most %d were in flight", repeated, deaths, limit)
	}
}

// checkOrder fails the test unless every arrival is of the message of the
// arrival before it, or of the next one.
func (q *queueTrial) checkOrder(arrivals []arrival) {
	q.t.Helper()
	current, delivered := 0, false
	for i, a := range arrivals {
		if a.messageID != q.ids[current] && delivered {
			current, delivered = current+1, false
		}
		if current == len(q.ids) || a.messageID != q.ids[current] {
			q.t.Fatalf("arrival %d is of %s, out of order", i, a.messageID)
		}
		delivered = delivered || a.status == 200
	}
	if current != len(q.ids)-1 {
		q.t.Errorf("%d messages arrived, want %d", current+1, len(q.ids))
	}
}

// countRepeated returns how many attempts had arrived before. It fails the test
// if one is made again although its server did not die.
func (q *queueTrial) countRepeated(arrivals []arrival) int {
	q.t.Helper()
	type attempt struct {
		messageID string
		retried   int
	}
	repeated := 0
	generations := make(map[attempt]int)
	for _, a := range arrivals {
		this := attempt{a.messageID, a.retried}
		before, known := generations[this]
		generations[this] = a.generation
		if known {
			repeated++
		}
		if known && before == a.generation {
			q.t.Errorf("attempt %d of %s was made twice by one server", a.retried, a.messageID)
		}
	}
	return repeated
}

// inOrder returns all arrivals in their order.
func (s *sink) inOrder() []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]arrival(nil), s.arrivals...)
}
