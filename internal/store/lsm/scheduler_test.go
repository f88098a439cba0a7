package lsm

import (
	"fmt"
	"testing"
	"time"

	"posthaste"
)

// line is a scheduler, and what tests do to it. Nothing in it is on disk.
type line struct {
	*testing.T
	*scheduler
	order posthaste.Position // of the last message
}

var lineNow = time.UnixMilli(1_800_000_000_000)

func newLine(t *testing.T, memory int) *line {
	return &line{T: t, scheduler: newScheduler(nothingOnDisk{}, memory)}
}

type nothingOnDisk struct{}

func (nothingOnDisk) readWaiting(laneID, ticket, int) ([]*item, error) { return nil, nil }

func (nothingOnDisk) readQueue(_, name string) (*posthaste.Queue, error) {
	return &posthaste.Queue{Name: name, Parallelism: 100}, nil
}

func (nothingOnDisk) readFlowKey(_, key string) (*posthaste.FlowKey, error) {
	return &posthaste.FlowKey{Key: key}, nil
}

// enqueue adds a message of so many bytes to a queue of a user.
func (l *line) enqueue(user, queue string, size int) {
	l.order++
	it := &item{waiting: waiting{size: size}}
	it.order = l.order
	it.id[0], it.id[1] = byte(l.order>>8), byte(l.order)
	l.add(laneID{user, posthaste.Lane{Kind: posthaste.LaneQueue, Name: queue}}, it)
}

// claimOf claims while so many slots are free, and requires it to be of those queues.
func (l *line) claimOf(free int, want ...string) []*lease {
	l.Helper()
	leases, _, err := l.claim(lineNow, free)
	if err != nil {
		l.Fatal(err)
	}
	if got := each(leases, func(held *lease) string { return held.lane.id.Name }); fmt.Sprint(got) != fmt.Sprint(want) {
		l.Fatalf("claimed of %v, want %v", got, want)
	}
	return leases
}

// TestQueueKeepsItsPlace has a queue get more messages while it is the first that waits
// for room of its user: it is the first to get some.
func TestQueueKeepsItsPlace(t *testing.T) {
	l := newLine(t, 0)
	var leases []*lease
	for n, queue := range []string{"a", "b", "c"} {
		l.enqueue("ann", queue, 10)
		leases = append(leases, l.claimOf(4-n, queue)...)
	}
	for _, queue := range []string{"first", "second", "first"} {
		l.enqueue("ann", queue, 10)
		l.claimOf(1)
	}
	l.endSettle(leases[0], nil)
	l.claimOf(2, "first")
}

// TestHungryQueuesAreServedInTurn has two queues fill the memory that their user may have,
// and take again at once what they gave. A third that waits for some gets it first, also if
// its message is larger than what they give at a time.
func TestHungryQueuesAreServedInTurn(t *testing.T) {
	const memory = 1 << 20
	for name, size := range map[string]int{"of the same size": memory * 3 / 8, "larger": memory / 2} {
		t.Run(name, func(t *testing.T) {
			l := newLine(t, memory)
			held := map[string]*lease{}
			for _, queue := range []string{"a", "b"} {
				for range 5 {
					l.enqueue("ann", queue, memory*3/8)
				}
				held[queue] = l.claimOf(100, queue)[0]
			}
			l.enqueue("ann", "c", size)
			l.claimOf(100)
			l.enqueue("ann", "small", 10)
			l.claimOf(100, "small")
			l.endSettle(held["a"], nil)
			if size > memory*3/8 {
				l.claimOf(100) // there is memory for another of a, which is kept for c
				l.endSettle(held["b"], nil)
			}
			if claimed := l.claimOf(100, "c"); claimed[0].waiting.size != size {
				t.Errorf("%d bytes, want %d", claimed[0].waiting.size, size)
			}
		})
	}
}
