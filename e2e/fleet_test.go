package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"posthaste/internal/store/postgres/pgtest"
)

// fleet are nodes that share a PostgreSQL.
type fleet struct {
	t       *testing.T
	cluster *pgtest.Cluster // nil: the test's own affair
	url     string
	nodes   []*fleetNode

	partitions int // of users, at least, once a node has started that knows it

	outage atomic.Bool // the database is away, or was a moment ago
}

// fleetNode is one of the nodes, through all the processes it is in turn.
type fleetNode struct {
	fleet  *fleet
	gate   *gate
	number int
	life   int // of its process, which tells its destinations by the region header
	server *server

	mu     sync.Mutex
	base   string           // URL of its process
	deaths map[string]death // by the name of the process
}

// newFleet starts nodes on an empty database, all at once. They end with the test.
func newFleet(t *testing.T, nodes int) *fleet {
	t.Helper()
	needPostgres(t)
	cluster := pgtest.Run(t)
	f := newFleetOn(t, databasesIn(t, cluster), nodes)
	f.cluster = cluster
	return f
}

// newFleetOn is newFleet on a database that is there.
func newFleetOn(t *testing.T, url string, nodes int) *fleet {
	t.Helper()
	f := &fleet{t: t, url: url, partitions: *partitions}
	t.Cleanup(f.end)
	for number := range nodes {
		n := &fleetNode{fleet: f, gate: newGate(), number: number, deaths: map[string]death{}}
		f.nodes = append(f.nodes, n)
		n.launch()
	}
	for _, n := range f.nodes {
		n.open()
	}
	return f
}

// end stops what still runs.
func (f *fleet) end() {
	for _, n := range f.nodes {
		n.gate.close()
		if n.server != nil {
			n.server.stop(f.t)
			n.server = nil
		}
	}
}

// name is what a process of the node is called in the region header of deliveries.
func (n *fleetNode) name() string { return fmt.Sprintf("node-%d-%d", n.number, n.life) }

// launch starts the node's next process.
func (n *fleetNode) launch() {
	n.life++
	n.server = launch(n.fleet.t, append([]string{
		"serve", "--listen", "127.0.0.1:0", "--token", testToken, "--destinations", "any",
		"--region", n.name(), "--log-level", "warn",
	}, dividedFlags(n.fleet.url, n.fleet.partitions)...)...)
}

// open lets clients through as soon as the node takes requests.
func (n *fleetNode) open() {
	base := n.server.url(n.fleet.t)
	n.mu.Lock()
	n.base = base
	n.mu.Unlock()
	n.gate.open(newClient(base, testToken))
}

// client returns a client of the node's latest process.
func (n *fleetNode) client() *client {
	n.mu.Lock()
	defer n.mu.Unlock()
	return newClient(n.base, testToken)
}

// kill ends the node's process as kill -9 does.
func (n *fleetNode) kill() {
	n.gate.shut()
	from := time.Now()
	n.server.kill(n.fleet.t)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaths[n.name()] = death{from, time.Now()}
	n.server = nil
}

// killOne kills a node, leaves it dead for a moment, and starts it anew.
func (f *fleet) killOne(random *rand.Rand) {
	const longestAbsence = 2 * time.Second
	n := f.nodes[random.IntN(len(f.nodes))]
	n.kill()
	time.Sleep(time.Duration(random.Int64N(int64(longestAbsence))))
	n.launch()
	n.open()
}

// allDivided reports whether all users have as many partitions as the last node has asked for.
func (f *fleet) allDivided() bool {
	schema, err := exec.Command(binary, "schema", "show", "--output", "json", "--database-url", f.url).Output()
	return err == nil && strings.Contains(string(schema), fmt.Sprintf(`"partitions":%d,"undivided":0`, f.partitions))
}

// restartDatabase stops the database as a crash does, and starts it again. It returns
// when that was. A database that others run is left alone.
func (f *fleet) restartDatabase() death {
	f.t.Helper()
	if f.cluster.Given() {
		return death{}
	}
	f.outage.Store(true)
	from := time.Now()
	if err := errors.Join(f.cluster.Halt(), f.cluster.Launch()); err != nil {
		f.t.Fatal(err)
	}
	return f.endOutage(from)
}

// endOutage waits until all nodes are ready after an outage of the database.
func (f *fleet) endOutage(from time.Time) death {
	for _, n := range f.nodes {
		n.awaitReady()
	}
	f.outage.Store(false)
	return death{from, time.Now()}
}

// awaitReady waits until the node says that it is ready.
func (n *fleetNode) awaitReady() {
	n.fleet.t.Helper()
	await(n.fleet.t, fmt.Sprintf("node %d is ready", n.number), n.ready)
}

func (n *fleetNode) ready() bool {
	return n.client().call(n.fleet.t.Context(), "GET", "/readyz", nil, "", nil) == nil
}

// deaths returns when each process of the fleet that was killed died.
func (f *fleet) deaths() map[string]death {
	all := map[string]death{}
	for _, n := range f.nodes {
		n.mu.Lock()
		for name, d := range n.deaths {
			all[name] = d
		}
		n.mu.Unlock()
	}
	return all
}

// whileOpen calls a function with the client of each process of the node in turn. It may
// only fail because the process dies, or with a 503 while the database is away.
func (n *fleetNode) whileOpen(call func(*client) error) {
	for {
		c, open := n.gate.pass()
		if !open {
			return
		}
		away := n.fleet.outage.Load()
		err := call(c)
		answer, answered := errors.AsType[*statusError](err)
		excused := answered && answer.status == 503 && (away || n.fleet.outage.Load())
		if err != nil && !excused && (answered || n.gate.leadsTo(c)) {
			n.fleet.t.Errorf("node %d was alive and failed: %v", n.number, err)
			return
		}
	}
}

// await waits until something is so.
func await(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	const pause = 20 * time.Millisecond
	for deadline := time.Now().Add(patience); !isSo(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
