package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestKill kills a loaded server at random moments, many times in a row over one
// data directory, and then compares what publishers were promised, what arrived,
// and what the log tells (contract, messages 3). For a long run:
//
//	go test -race -run TestKill -timeout 1h ./e2e -kills=100
func TestKill(t *testing.T) {
	t.Parallel()
	random := newRandom(t)
	r := newOrdeal(t)
	r.load(random)
	for n := 0; n < *kills || r.acknowledgedNone(); n++ {
		if n == 10**kills {
			t.Fatalf("none of %d servers lived long enough to acknowledge anything", n)
		}
		r.runAndKill(random)
	}
	r.unload()
	_, c := startServe(t, r.directory, "--log-level", "warn")
	r.follower.waitForEnd(t, c, r.acknowledged)
	r.report(c).check(t)
}

const (
	publishers = 16
	// maxBacklog is how many acknowledged messages may wait for their delivery
	// before publishers pause. It keeps every life of the server a loaded one and
	// the work that is left at the end small.
	maxBacklog = 400

	longestLife     = 700 * time.Millisecond // of a server after it has taken or delivered a message
	longestRecovery = 200 * time.Millisecond // of one that is killed while it starts
	recoveryOdds    = 5                      // one in so many is
)

// ordeal is one data directory through the lives and deaths of its servers, with
// publishers and a reader of the log that never stop.
type ordeal struct {
	t         *testing.T
	directory string
	sink      *sink
	gate      *gate
	follower  *follower
	working   sync.WaitGroup
	deaths    []death

	mu           sync.Mutex
	acknowledged map[string]bool // ids of messages that were answered with a 2xx
}

// death is the time within which a server died.
type death struct{ from, to time.Time }

func newOrdeal(t *testing.T) *ordeal {
	t.Helper()
	return &ordeal{
		t:            t,
		directory:    t.TempDir(),
		sink:         newSink(t),
		gate:         newGate(),
		follower:     newFollower(),
		acknowledged: make(map[string]bool),
	}
}

// load starts the publishers and the follower.
func (r *ordeal) load(random *rand.Rand) {
	for range publishers {
		own := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
		r.working.Go(func() { r.whileOpen(func(c *client) error { return r.publishOne(c, own) }) })
	}
	r.working.Go(func() {
		r.whileOpen(func(c *client) error {
			_, err := r.follower.readOn(c)
			return err
		})
	})
	r.t.Cleanup(r.unload)
}

// unload ends them.
func (r *ordeal) unload() {
	r.gate.close()
	r.working.Wait()
}

// runAndKill starts a server and kills it at a random moment, now and then
// before it is ready.
func (r *ordeal) runAndKill(random *rand.Rand) {
	s := launchServe(r.t, r.directory, "--log-level", "warn")
	if random.IntN(recoveryOdds) == 0 {
		time.Sleep(time.Duration(random.Int64N(int64(longestRecovery))))
	} else {
		before := r.progress()
		r.gate.open(newClient(s.url(r.t), testToken))
		r.awaitProgress(before)
		time.Sleep(time.Duration(random.Int64N(int64(longestLife))))
	}
	r.gate.shut()
	from := time.Now()
	s.kill(r.t)
	r.deaths = append(r.deaths, death{from, time.Now()})
	r.sink.nextGeneration(r.t)
}

// progress counts the messages that were acknowledged or delivered.
func (r *ordeal) progress() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.acknowledged) + r.sink.deliveries()
}

// awaitProgress waits for more of it: on a busy machine a server would else be killed before
// it had done anything.
func (r *ordeal) awaitProgress(before int) {
	const pause = time.Millisecond
	for begun := time.Now(); r.progress() == before; time.Sleep(pause) {
		if time.Since(begun) > patience {
			r.t.Fatalf("no message was acknowledged or delivered within %s", patience)
		}
	}
}

// whileOpen calls a function with the client of each server in turn. It may only
// fail because the server dies, or its disk stands still.
func (r *ordeal) whileOpen(call func(*client) error) {
	for {
		c, open := r.gate.pass()
		if !open {
			return
		}
		if err := call(c); err != nil && !r.gate.excuses(c, err) {
			r.t.Errorf("the server was alive and failed: %v", err)
			return
		}
	}
}

// publishOne publishes a message and notes that it was acknowledged. While too
// many wait for their delivery it does nothing.
func (r *ordeal) publishOne(c *client, random *rand.Rand) error {
	const pause = 5 * time.Millisecond
	if r.backlog() > maxBacklog {
		time.Sleep(pause)
		return nil
	}
	id, err := r.publishAny(c, random)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acknowledged[id] = true
	return nil
}

// publishAny publishes a message of a random kind.
func (r *ordeal) publishAny(c *client, random *rand.Rand) (id string, err error) {
	url := r.sink.url + "/" + pick(random, []string{answerOK, answerOK, answerLate, answerFlaky}) + "/kill"
	header := map[string]string{"Upstash-Method": "POST", "Upstash-Retry-Delay": "50"}
	body := strings.Repeat("x", random.IntN(1000))
	switch random.IntN(10) {
	case 0:
		return c.enqueue(context.Background(), "line", url, header, body)
	case 1:
		header["Upstash-Delay"] = "1s"
	case 2:
		header["Upstash-Flow-Control-Key"] = "narrow"
		header["Upstash-Flow-Control-Value"] = "parallelism=4"
	}
	return c.publish(context.Background(), url, header, body)
}

func (r *ordeal) backlog() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.acknowledged) - r.sink.deliveries()
}

// acknowledgedNone reports whether all servers died before they had answered anybody, as
// they may if all were killed while they started: there is nothing to compare then.
func (r *ordeal) acknowledgedNone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.acknowledged) == 0
}

// report gathers what there is to compare.
func (r *ordeal) report(c *client) *report {
	return &report{
		acknowledged: r.acknowledged,
		arrivals:     r.sink.taken(),
		deaths:       r.deaths,
		followed:     r.follower.entries,
		log:          c.allLogs(r.t),
	}
}

// gate lets clients through to the server of the moment, and holds them back
// while there is none.
type gate struct {
	mu      sync.Mutex
	changed *sync.Cond
	client  *client // nil while there is no server
	closed  bool
}

func newGate() *gate {
	g := &gate{}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// pass waits for a server. It reports false when there will be none any more.
func (g *gate) pass() (*client, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.client == nil && !g.closed {
		g.changed.Wait()
	}
	return g.client, !g.closed
}

// leadsTo reports whether the client's server is still expected to answer.
func (g *gate) leadsTo(c *client) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.client == c
}

// excuses reports whether a call may have failed: the client's server is dead, or says that
// its disk does not answer.
func (g *gate) excuses(c *client, err error) bool {
	if answer, answered := errors.AsType[*statusError](err); answered {
		return answer.isOfDisk()
	}
	return !g.leadsTo(c)
}

func (g *gate) open(c *client) { g.change(c, false) }

// shut is called just before a server dies.
func (g *gate) shut() { g.change(nil, false) }

func (g *gate) close() { g.change(nil, true) }

func (g *gate) change(c *client, closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.client, g.closed = c, closed
	g.changed.Broadcast()
}
