package lanes

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"posthaste"
)

// line is a scheduler, and what tests do to it. Nothing in it is on disk.
type line struct {
	*testing.T
	*Scheduler
	now   time.Time
	order posthaste.Position // of the last message
}

var lineNow = time.UnixMilli(1_800_000_000_000)

func newLine(t *testing.T, memory int) *line {
	return &line{T: t, Scheduler: New(nothingOnDisk{}, memory), now: lineNow}
}

type nothingOnDisk struct {
	keys map[string]posthaste.FlowLimit
}

func (nothingOnDisk) ReadWaiting(ID, Spot, int) ([]*Item, error) { return nil, nil }

func (nothingOnDisk) ReadQueue(_, name string) (*posthaste.Queue, error) {
	return &posthaste.Queue{Name: name, Parallelism: 100}, nil
}

func (d nothingOnDisk) KeyHome(user, _ string) string { return user }

func (d nothingOnDisk) ReadFlowKey(_, key string) (*posthaste.FlowKey, error) {
	return &posthaste.FlowKey{Key: key, FlowLimit: d.keys[key]}, nil
}

// enqueue adds a message of so many bytes to a queue of a user.
func (l *line) enqueue(user, queue string, size int) { l.wait(user, queue, Waiting{Size: size}) }

// wait adds a message to a queue of a user that waits as it is told.
func (l *line) wait(user, queue string, w Waiting) {
	l.order++
	it := &Item{Waiting: w}
	it.Order = l.order
	it.ID[0], it.ID[1] = byte(l.order>>8), byte(l.order)
	l.Add(ID{user, posthaste.Lane{Kind: posthaste.LaneQueue, Name: queue}}, it)
}

// claimOf claims while so many slots are free, and requires it to be of those queues.
func (l *line) claimOf(free int, want ...string) []*Lease {
	l.Helper()
	leases, _, err := l.Claim(l.now, free)
	if err != nil {
		l.Fatal(err)
	}
	if got := names(leases); fmt.Sprint(got) != fmt.Sprint(want) {
		l.Fatalf("claimed of %v, want %v", got, want)
	}
	return leases
}

// TestQueueKeepsItsPlace has a queue get more messages while it is the first that waits
// for room of its user: it is the first to get some.
func TestQueueKeepsItsPlace(t *testing.T) {
	l := newLine(t, 0)
	var leases []*Lease
	for n, queue := range []string{"a", "b", "c"} {
		l.enqueue("ann", queue, 10)
		leases = append(leases, l.claimOf(4-n, queue)...)
	}
	for _, queue := range []string{"first", "second", "first"} {
		l.enqueue("ann", queue, 10)
		l.claimOf(1)
	}
	l.EndSettle(leases[0], nil)
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
			held := map[string]*Lease{}
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
			l.EndSettle(held["a"], nil)
			if size > memory*3/8 {
				l.claimOf(100) // there is memory for another of a, which is kept for c
				l.EndSettle(held["b"], nil)
			}
			if claimed := l.claimOf(100, "c"); claimed[0].Waiting.Size != size {
				t.Errorf("%d bytes, want %d", claimed[0].Waiting.Size, size)
			}
		})
	}
}

// TestQueueRetriesOnTime has a queue wait for what its next message needs, and retry an
// earlier one, which needs nothing: the retry is claimed when it is due.
func TestQueueRetriesOnTime(t *testing.T) {
	const memory = 1 << 20
	tests := []struct {
		name  string
		limit posthaste.FlowLimit // of the key of the next message
		size  int                 // of the next message
	}{
		{"others of its key have to end", posthaste.FlowLimit{Parallelism: 1}, 10},
		{"the window of its key has to end", posthaste.FlowLimit{Rate: 1, Period: time.Minute}, 10},
		{"others have to give memory back", posthaste.FlowLimit{}, memory * 3 / 4},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newLine(t, memory)
			l.disk = nothingOnDisk{map[string]posthaste.FlowLimit{"key": test.limit}}
			next := Waiting{Size: test.size, FlowKey: "key"}
			l.wait("ann", "other", next)
			held := l.claimOf(100, "other")[0]
			due := l.now.Add(5 * time.Second)
			l.wait("ann", "queue", Waiting{ReadyMS: due.UnixMilli(), Retried: 1})
			l.wait("ann", "queue", next)
			leases, wakes, err := l.Claim(l.now, 100)
			if len(leases) > 0 || wakes.IsZero() || wakes.After(due) || err != nil {
				t.Fatalf("claim = %d leases, to be called again at %v, %v; want none, and when the retry is due at the latest, %v", len(leases), wakes, err, due)
			}
			l.now = due
			if claimed := l.claimOf(100, "queue")[0]; claimed.Waiting.Retried == 0 {
				t.Error("the next message was claimed, and not the retry")
			}
			l.EndSettle(held, nil)
			l.now = due.Add(time.Minute)
			l.claimOf(100, "queue")
		})
	}
}

// laneOnDisk is a lane of which everything is on disk.
type laneOnDisk struct {
	nothingOnDisk
	items []*Item // in order
}

func (d *laneOnDisk) ReadWaiting(_ ID, after Spot, limit int) (read []*Item, _ error) {
	for _, it := range d.items {
		if after.Before(it.Spot) && len(read) < limit {
			read = append(read, &Item{Spot: it.Spot, Waiting: it.Waiting})
		}
	}
	return read, nil
}

// TestManyRetriesOfAWideQueue has more messages of a queue wait for a retry than are read at once,
// and the queue is wider still: the next messages begin, also when memory is so short that few of
// a lane are kept in it.
func TestManyRetriesOfAWideQueue(t *testing.T) {
	const retries, width = laneHead, laneHead + 100
	for name, crowded := range map[string]bool{"alone": false, "beside many lanes": true} {
		t.Run(name, func(t *testing.T) {
			l := newLine(t, 0)
			disk := &laneOnDisk{}
			l.disk = disk
			queue := ID{"ann", posthaste.Lane{Kind: posthaste.LaneQueue, Name: "queue"}}
			later := l.now.Add(time.Hour)
			for n := range width + 10 {
				it := &Item{Spot: Spot{Order: posthaste.Position(n + 1)}}
				it.ID[0], it.ID[1] = byte(n>>8), byte(n)
				if n < retries {
					it.Waiting = Waiting{ReadyMS: later.UnixMilli(), Retried: 1}
				}
				disk.items = append(disk.items, it)
			}
			if crowded {
				l.kept.items = crowdedItems + 1
			}
			l.Restore(queue, 0)
			l.ChangeQueue("ann", &posthaste.Queue{Name: "queue", Parallelism: width})
			claim := func() int {
				leases, _, err := l.Claim(l.now, 16*width)
				if err != nil {
					t.Fatal(err)
				}
				return len(leases)
			}
			if got := claim(); got != width-retries {
				t.Fatalf("%d messages begin beside those that wait for a retry, want %d", got, width-retries)
			}
			last := &Item{Spot: Spot{Order: width + 100}}
			disk.items = append(disk.items, last)
			l.add(queue, last)
			l.now = later
			if got := claim(); got != retries {
				t.Errorf("%d messages are retried, want %d", got, retries)
			}
		})
	}
}

// TestWindowEndsWithinAMillisecond has a key's window end within one: nothing starts before,
// and it takes one look to start something then.
func TestWindowEndsWithinAMillisecond(t *testing.T) {
	limit := posthaste.FlowLimit{Rate: 1, Period: time.Second}
	for _, within := range []time.Duration{0, 1, 300 * time.Microsecond, time.Millisecond - 1} {
		t.Run(within.String(), func(t *testing.T) {
			l := newLine(t, 0)
			l.disk = nothingOnDisk{map[string]posthaste.FlowLimit{"key": limit}}
			l.now = l.now.Add(within)
			end := l.now.Add(limit.Period)
			for range 2 {
				l.wait("ann", "queue", Waiting{FlowKey: "key"})
			}
			l.claimOf(100, "queue")
			_, next, _ := l.Claim(l.now, 100)
			if next.Before(end) || !next.Before(end.Add(time.Millisecond)) {
				t.Fatalf("to be called again at %v, want the first millisecond from %v on", next, end)
			}
			l.now = next
			l.claimOf(100, "queue")
		})
	}
}

// TestQueueObeysAChangedKey has a queue wait until the window of a key ends, whose rate is
// lifted meanwhile.
func TestQueueObeysAChangedKey(t *testing.T) {
	l := newLine(t, 0)
	l.disk = nothingOnDisk{map[string]posthaste.FlowLimit{"key": {Rate: 1, Period: time.Hour}}}
	for range 2 {
		l.wait("ann", "queue", Waiting{FlowKey: "key"})
	}
	l.claimOf(100, "queue")
	l.claimOf(100)
	l.ChangeFlowKey("ann", posthaste.FlowKey{Key: "key"}, false)
	l.claimOf(100, "queue")
}

// TestWhatCannotBeRead has something of one user that cannot be read: others are served, and
// the user is a second after it can be read again.
func TestWhatCannotBeRead(t *testing.T) {
	tests := map[string]func(l *line){
		"a queue": func(l *line) { l.enqueue("broken", "queue", 10) },
		"a flow-control key": func(l *line) {
			l.wait("broken", "queue", Waiting{FlowKey: "key"})
			l.ChangeQueue("broken", aQueue("queue")) // so it is known
		},
		"what waits": func(l *line) {
			l.Restore(ID{"broken", posthaste.Lane{Kind: posthaste.LaneQueue, Name: "queue"}}, 0)
			l.ChangeQueue("broken", aQueue("queue"))
		},
	}
	for name, begin := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLine(t, 0)
			disk := &brokenDisk{broken: "broken"}
			l.disk = disk
			begin(l)
			l.enqueue("ann", "behind it", 10)
			leases, wakes, err := l.Claim(l.now, 100)
			if !errors.Is(err, errDamaged) || len(leases) != 1 || leases[0].lane.id.User != "ann" {
				t.Fatalf("claim = %d leases, %v; want that of ann, and the error", len(leases), err)
			}
			if want := l.now.Add(brokenPause); !wakes.Equal(want) {
				t.Errorf("to be called again at %v, want %v", wakes, want)
			}
			l.claimOf(100) // and tells nobody again
			disk.broken = ""
			l.now = l.now.Add(brokenPause)
			l.claimOf(100, "queue")
		})
	}
}

// brokenDisk cannot read anything of a user.
type brokenDisk struct {
	nothingOnDisk
	broken string
}

func (d *brokenDisk) ReadWaiting(id ID, from Spot, limit int) ([]*Item, error) {
	if id.User == d.broken {
		return nil, errDamaged
	}
	return []*Item{{Spot: Spot{Order: 1}, Waiting: Waiting{Size: 10}}}, nil
}

func (d *brokenDisk) ReadQueue(user, name string) (*posthaste.Queue, error) {
	if user == d.broken {
		return nil, errDamaged
	}
	return d.nothingOnDisk.ReadQueue(user, name)
}

func (d *brokenDisk) ReadFlowKey(user, key string) (*posthaste.FlowKey, error) {
	if user == d.broken {
		return nil, errDamaged
	}
	return d.nothingOnDisk.ReadFlowKey(user, key)
}

// TestALargeMessageBesideBusyQueues has queues of others take again at once what they give
// back of the memory. A message that is larger than what they leave is claimed all the same.
func TestALargeMessageBesideBusyQueues(t *testing.T) {
	const memory = 1 << 20
	for name, size := range map[string]int{"it needs half": memory / 2, "it needs all": memory, "it needs more than all": 2 * memory} {
		t.Run(name, func(t *testing.T) {
			l := newLine(t, memory)
			var busy []*Lease
			for _, user := range []string{"ann", "bea"} {
				for range 20 {
					l.enqueue(user, user, memory*3/8)
				}
				busy = append(busy, l.claimOf(100, user)...)
			}
			l.enqueue("large", "large", size)
			l.claimOf(100)
			for range 20 {
				l.now = l.now.Add(time.Second)
				held := busy[0]
				l.EndSettle(held, nil)
				busy = busy[1:]
				leases, wakes, err := l.Claim(l.now, 100)
				if err != nil {
					t.Fatal(err)
				}
				for _, held := range leases {
					if held.lane.id.User == "large" {
						return
					}
				}
				if next := l.now.Add(memoryPause); !wakes.Equal(next) {
					t.Fatalf("to be called again at %v, want %v, while a lane waits for memory", wakes, next)
				}
				if busy = append(busy, leases...); len(busy) == 0 {
					t.Fatal("nobody has any memory")
				}
			}
			t.Error("the large message is not claimed")
		})
	}
}

// names returns the names of the lanes of leases.
func names(leases []*Lease) (names []string) {
	for _, held := range leases {
		names = append(names, held.lane.id.Name)
	}
	return names
}

// aQueue returns a queue with the default settings.
func aQueue(name string) *posthaste.Queue {
	return &posthaste.Queue{Name: name, Parallelism: posthaste.DefaultParallelism}
}

var errDamaged = errors.New("stored record is damaged")
