package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
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
// other node makes these attempts within 15 seconds. The one that is cut off says that it
// is not ready, makes no more attempts, and has its late settlements refused; when the
// network is mended it goes on by itself.
func TestPartition(t *testing.T) {
	needPostgres(t)
	t.Parallel()
	p := newPartition(t)
	held := p.publish(p.lone, "/held")
	await(t, "the attempts of the node are in flight", func() bool { return p.arrived("lone", held) })
	p.startOther()

	p.toDatabase.cut()
	from := time.Now()
	await(t, "the other node makes the attempts, too", func() bool { return p.arrived("other", held) })
	took := time.Since(from)
	if took > takeOver {
		t.Errorf("the other node took over after %v, want %v at most", took, takeOver)
	}
	wantStatus(t, http.StatusServiceUnavailable, p.lone.call(t.Context(), http.MethodGet, "/readyz", nil, "", nil))
	_, err := p.lone.publish(t.Context(), p.url+"/any", nil, "")
	wantStatus(t, http.StatusServiceUnavailable, err)
	meanwhile := p.publish(p.other, "/any")
	await(t, "the other node delivers", func() bool { return p.arrived("other", meanwhile) })
	if p.arrived("lone", meanwhile[:1]) {
		t.Error("the node without a database made an attempt")
	}

	close(p.release) // the node learns how its attempts ended, and cannot say so
	p.toDatabase.mend()
	await(t, "the node is ready again", func() bool {
		return p.lone.call(t.Context(), http.MethodGet, "/readyz", nil, "", nil) == nil
	})
	await(t, "its settlements are refused", func() bool { return p.loneServer.output.contains("lease lost") })
	p.stopOther()
	after := p.publish(p.lone, "/any")
	await(t, "the node delivers again", func() bool { return p.arrived("lone", after) })
	for _, id := range slices.Concat(held, meanwhile, after) {
		await(t, id+" has ended", func() bool { return p.ended(id) })
	}
	t.Logf("taken over within %v", took.Round(time.Millisecond))
}

// partition is a database, a node that reaches it through a link, and another node.
type partition struct {
	t          *testing.T
	url        string // of the destination, which both nodes reach whatever is cut
	database   string // URL of the database for the other node
	toDatabase *link
	release    chan struct{} // closed when attempts of the lone node may be answered

	lone, other             *client
	loneServer, otherServer *server

	mu       sync.Mutex
	arrivals map[string]bool // REGION MESSAGE
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
	p := &partition{t: t, database: cluster.Database(t), release: make(chan struct{}), arrivals: map[string]bool{}}
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

// ServeHTTP takes an attempt. Those of the lone node are held where the path says so.
func (p *partition) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	region := r.Header.Get("Upstash-Region")
	p.mu.Lock()
	p.arrivals[region+" "+r.Header.Get("Upstash-Message-Id")] = true
	p.mu.Unlock()
	if region == "lone" && strings.HasPrefix(r.URL.Path, "/held") {
		<-p.release
	}
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
