package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store/postgres/pgtest"
)

// TestPartition cuts the network between one of two nodes and the database, while
// attempts of that node are in flight: it lives in a network namespace of its own. The
// other node makes these attempts within takeOver. The one that is cut off has ended them
// by then, so that neither a queue nor a flow-control key has two at its destination; it
// says that it is not ready and makes no more attempts; when the network is mended it goes
// on by itself.
func TestPartition(t *testing.T) {
	needPostgres(t)
	t.Parallel()
	p := newPartition(t)
	held, lanes := p.publish(p.lone, "/held"), p.publishInLanes()
	await(t, "the attempts of the node are in flight", func() bool {
		return p.arrived("lone", held) && p.inFlight(laneLine) == 1 && p.inFlight(laneNarrow) == 1
	})
	p.startOther()

	p.toDatabase.cut()
	from := time.Now()
	await(t, "the other node makes the attempts, too", func() bool { return p.arrived("other", slices.Concat(held, lanes)) })
	took := time.Since(from)
	if took > takeOver() {
		t.Errorf("the other node took over after %v, want %v at most", took, takeOver())
	}
	await(t, "the node knows that it is taken for dead", func() bool { return p.loneServer.output.contains("node.silent") })
	wantStatus(t, http.StatusServiceUnavailable, p.lone.call(t.Context(), http.MethodGet, "/readyz", nil, "", nil))
	_, err := p.lone.publish(t.Context(), p.url+"/any", nil, "")
	wantStatus(t, http.StatusServiceUnavailable, err)
	meanwhile := p.publish(p.other, "/any")
	await(t, "the other node delivers", func() bool { return p.arrived("other", meanwhile) })
	if p.arrived("lone", meanwhile[:1]) {
		t.Error("the node without a database made an attempt")
	}

	p.toDatabase.mend()
	await(t, "the node is ready again", func() bool {
		return p.lone.call(t.Context(), http.MethodGet, "/readyz", nil, "", nil) == nil
	})
	p.stopOther()
	after := p.publish(p.lone, "/any")
	await(t, "the node delivers again", func() bool { return p.arrived("lone", after) })
	for _, id := range slices.Concat(held, lanes, meanwhile, after) {
		await(t, id+" has ended", func() bool { return p.ended(id) })
	}
	for _, lane := range []string{laneLine, laneNarrow} {
		if most := p.mostInFlight(lane); most != 1 {
			t.Errorf("%d attempts of %s were at the destination at once, want 1", most, lane)
		}
	}
	t.Logf("taken over within %v", took.Round(time.Millisecond))
}

// partition is a database, a node that reaches it through a link, and another node.
type partition struct {
	t          *testing.T
	url        string // of the destination, which both nodes reach whatever is cut
	database   string // URL of the database for the other node
	toDatabase *link

	lone, other             *client
	loneServer, otherServer *server

	mu       sync.Mutex
	arrivals map[string]bool // REGION MESSAGE
	present  map[string]int  // attempts at the destination, by lane
	most     map[string]int  // of them at once
}

func newPartition(t *testing.T) *partition {
	t.Helper()
	n := newNamespace(t)
	cluster, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	p := &partition{t: t, database: cluster.Database(t), arrivals: map[string]bool{}, present: map[string]int{}, most: map[string]int{}}
	p.toDatabase = n.link(1)
	rest := n.link(2)
	p.url = rest.serve(p)
	u, err := url.Parse(p.database)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = p.toDatabase.forward(u.Host)
	p.loneServer = launchAs(t, exec.Command("ip", append([]string{"netns", "exec", n.name, binary},
		p.serve("lone", rest.there, u.String())...)...))
	t.Cleanup(func() { p.loneServer.stop(t) })
	p.lone = newClient(p.loneServer.url(t), testToken)
	return p
}

// serve returns the command line of a node.
func (p *partition) serve(region, host, database string) []string {
	return append([]string{
		"serve", "--listen", host + ":0", "--token", testToken, "--destinations", "any", "--region", region,
	}, databaseFlags(database)...)
}

func (p *partition) startOther() {
	p.otherServer = launch(p.t, p.serve("other", "127.0.0.1", p.database)...)
	p.other = newClient(p.otherServer.url(p.t), testToken)
}

func (p *partition) stopOther() { p.otherServer.stop(p.t) }

// ServeHTTP takes an attempt, whose lane is the last segment of its path. Those of the lone
// node are held where the path says so, until the node ends them.
func (p *partition) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // so that the end of the connection is noticed
	region, lane := r.Header.Get("Upstash-Region"), path.Base(r.URL.Path)
	p.enter(region+" "+r.Header.Get("Upstash-Message-Id"), lane)
	defer p.leave(lane)
	if region == "lone" && strings.HasPrefix(r.URL.Path, "/held") {
		<-r.Context().Done()
	}
}

func (p *partition) enter(arrival, lane string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrivals[arrival] = true
	p.present[lane]++
	p.most[lane] = max(p.most[lane], p.present[lane])
}

func (p *partition) leave(lane string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.present[lane]--
}

// inFlight returns how many attempts of a lane are at the destination.
func (p *partition) inFlight(lane string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.present[lane]
}

// mostInFlight returns how many there were at once.
func (p *partition) mostInFlight(lane string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most[lane]
}

// arrived reports whether the destination has seen attempts of all the messages by a
// node.
func (p *partition) arrived(region string, ids []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.ContainsFunc(ids, func(id string) bool { return !p.arrivals[region+" "+id] })
}

// publish publishes some messages to a path.
func (p *partition) publish(c *client, path string) (ids []string) {
	p.t.Helper()
	const messages = 5
	for i := range messages {
		id, err := c.publish(p.t.Context(), fmt.Sprintf("%s%s/%d", p.url, path, i), nil, "")
		if err != nil {
			p.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// publishInLanes publishes two messages through a queue and two under a flow-control key,
// one of each at a time, whose attempts the lone node does not get answered.
func (p *partition) publishInLanes() (ids []string) {
	p.t.Helper()
	alone := map[string]string{"Upstash-Flow-Control-Key": laneNarrow, "Upstash-Flow-Control-Value": "parallelism=1"}
	for range 2 {
		queued, err := p.lone.enqueue(p.t.Context(), laneLine, p.url+"/held/"+laneLine, nil, "")
		if err != nil {
			p.t.Fatal(err)
		}
		limited, err := p.lone.publish(p.t.Context(), p.url+"/held/"+laneNarrow, alone, "")
		if err != nil {
			p.t.Fatal(err)
		}
		ids = append(ids, queued, limited)
	}
	return ids
}

// ended reports whether a message was delivered, and fails the test if that was logged
// more than once.
func (p *partition) ended(id string) bool {
	p.t.Helper()
	entries, err := p.lone.walk(p.t.Context(), url.Values{"messageId": {id}})
	if err != nil {
		p.t.Fatal(err)
	}
	delivered := 0
	for _, entry := range entries {
		if entry.State == posthaste.StateDelivered {
			delivered++
		}
	}
	if delivered > 1 {
		p.t.Errorf("%s was delivered %d times by its log", id, delivered)
	}
	return delivered > 0
}
