package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"posthaste"
)

var (
	clusterKills = flag.Int("cluster-kills", 6, "how often the cluster test kills a node")
	clusterLoad  = flag.Int("cluster-load", 2, "how many publishers each node has in the cluster test")
	growTo       = flag.Int("grow-to", 4, "into how many partitions users are divided while the cluster test kills nodes")
	nodeLease    = flag.Duration("node-lease", 10*time.Second, "how long nodes of a database keep their claims while nothing is heard of them")
)

// takeOver is how long it may take at most until what a dead node was doing is done by
// another: a lease, the time to the next heartbeat of that one, and what it takes to make
// the lease void, to claim and to arrive.
func takeOver() time.Duration { return *nodeLease*4/3 + 4*time.Second }

// Lanes of the cluster test, with their limits.
const (
	laneLine   = "line"   // a queue, one at a time
	laneNarrow = "narrow" // a flow-control key, at most narrowWidth at once
	lanePaced  = "paced"  // another one, at most pacedRate begin in a second
	laneFree   = "free"

	narrowWidth = 4
	pacedRate   = 20
)

// TestCluster kills one of three loaded nodes every few seconds, some of which start again with more
// partitions, and restarts their database once. Every acknowledged message is delivered, the queue keeps its order, no more
// attempts are at the destination at once, and no more begin in a second, than may, every
// run ends, and a dead node's work is taken over soon after its lease. For a long run:
//
//	go test -race -run 'TestCluster$' -timeout 1h ./e2e -backend postgres -cluster-kills=200 -cluster-load=4
func TestCluster(t *testing.T) {
	random := newRandom(t)
	o := newClusterOrdeal(t, newFleet(t, 3))
	o.load(random)
	o.follow()
	for i := range *clusterKills {
		time.Sleep(time.Second + time.Duration(random.Int64N(int64(2*time.Second))))
		if i == *clusterKills/2 {
			o.outage = o.fleet.restartDatabase()
		}
		if i > 0 && i%max(1, *clusterKills/growths) == 0 && o.fleet.partitions < *growTo && *databases == 1 {
			o.fleet.partitions *= 2
		}
		o.fleet.killOne(random)
	}
	o.unload()
	o.check()
}

// growths is how often users are divided again at most.
const growths = 4

// clusterOrdeal is a fleet under load.
type clusterOrdeal struct {
	t         *testing.T
	fleet     *fleet
	meter     *meter
	workflow  string      // URL of the endpoint of runs
	followers []*follower // one at each node
	working   sync.WaitGroup
	outage    death // of the database

	mu           sync.Mutex
	acknowledged map[string]bool // ids of messages
	runs         map[string]bool // ids of runs that were acknowledged
}

func newClusterOrdeal(t *testing.T, f *fleet) *clusterOrdeal {
	t.Helper()
	o := &clusterOrdeal{
		t:            t,
		fleet:        f,
		meter:        newMeter(t),
		acknowledged: map[string]bool{},
		runs:         map[string]bool{},
	}
	workflow := httptest.NewServer(http.HandlerFunc(o.finishRun))
	t.Cleanup(workflow.Close)
	o.workflow = workflow.URL + "/" + answerFlaky + "/run"
	return o
}

// load starts publishers at each node.
func (o *clusterOrdeal) load(random *rand.Rand) {
	for _, n := range o.fleet.nodes {
		for range *clusterLoad {
			own := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
			o.working.Go(func() { n.whileOpen(func(c *client) error { return o.publishOne(c, own) }) })
		}
	}
	o.t.Cleanup(o.unload)
}

// follow starts a follower of the log at each node, until unload.
func (o *clusterOrdeal) follow() {
	for _, n := range o.fleet.nodes {
		f := newFollower()
		o.followers = append(o.followers, f)
		o.working.Go(func() {
			n.whileOpen(func(c *client) error {
				_, err := f.readOn(c)
				return err
			})
		})
	}
}

// unload ends what load and follow started.
func (o *clusterOrdeal) unload() {
	for _, n := range o.fleet.nodes {
		n.gate.close()
	}
	o.working.Wait()
}

// publishOne publishes a message or starts a run, and notes that it was acknowledged.
func (o *clusterOrdeal) publishOne(c *client, random *rand.Rand) error {
	const pause = 5 * time.Millisecond
	o.mu.Lock()
	backlog := len(o.acknowledged) - o.meter.deliveries()
	o.mu.Unlock()
	if backlog > maxBacklog {
		time.Sleep(pause)
		return nil
	}
	run := random.IntN(10) == 0
	var id string
	var err error
	if run {
		id, err = o.trigger(c)
	} else {
		id, err = o.publishAny(c, random)
	}
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if run {
		o.runs[id] = true
	} else {
		o.acknowledged[id] = true
	}
	return nil
}

// trigger starts a run that fails once, and ends when its first delivery succeeds.
func (o *clusterOrdeal) trigger(c *client) (string, error) {
	var answer struct {
		WorkflowRunID string `json:"workflowRunId"`
	}
	header := map[string]string{"Upstash-Retry-Delay": "50"}
	err := c.call(context.Background(), http.MethodPost, "/v2/trigger/"+o.workflow, header, "", &answer)
	return answer.WorkflowRunID, err
}

// finishRun is the endpoint of a workflow without steps: it fails the first attempt, and
// at the second it says, as SDKs do, that the run has ended.
func (o *clusterOrdeal) finishRun(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Upstash-Workflow-Sdk-Version", "1")
	if r.Header.Get("Upstash-Retried") == "0" {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	target := "/v2/workflows/runs/" + r.Header.Get("Upstash-Workflow-RunId") + "?cancel=false"
	for i := 0; r.Context().Err() == nil; i++ {
		err := o.fleet.nodes[i%len(o.fleet.nodes)].client().call(r.Context(), http.MethodDelete, target, nil, "", nil)
		if answer, answered := errors.AsType[*statusError](err); err == nil || answered && answer.status == http.StatusNotFound {
			return // not found: it was ended by an attempt that died before it was answered
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (o *clusterOrdeal) url(kind, lane string) string { return o.meter.url + "/" + kind + "/" + lane }

// publishAny publishes a message to a random lane.
func (o *clusterOrdeal) publishAny(c *client, random *rand.Rand) (string, error) {
	kind := pick(random, []string{answerOK, answerOK, answerLate, answerFlaky})
	header := map[string]string{"Upstash-Retry-Delay": "50"}
	body := strings.Repeat("x", random.IntN(1000))
	switch random.IntN(10) {
	case 0:
		return c.enqueue(context.Background(), laneLine, o.url(kind, laneLine), header, body)
	case 1:
		header["Upstash-Flow-Control-Key"] = laneNarrow
		header["Upstash-Flow-Control-Value"] = fmt.Sprintf("parallelism=%d", narrowWidth)
		return c.publish(context.Background(), o.url(kind, laneNarrow), header, body)
	case 2:
		header["Upstash-Flow-Control-Key"] = lanePaced
		header["Upstash-Flow-Control-Value"] = fmt.Sprintf("rate=%d, period=1s", pacedRate)
		return c.publish(context.Background(), o.url(kind, lanePaced), header, body)
	case 3:
		header["Upstash-Delay"] = "1s"
	}
	return c.publish(context.Background(), o.url(kind, laneFree), header, body)
}

// check waits until everything has ended and compares what was promised, what arrived
// and what the log tells.
func (o *clusterOrdeal) check() {
	o.t.Helper()
	c := o.fleet.nodes[0].client()
	log := o.waitForEnd(c)
	arrivals := o.meter.taken()
	wrong := &problems{}
	for i, f := range o.followers {
		if difference := firstDifference(f.entries, log); difference != "" {
			wrong.add("the log as it was followed at node %d differs from the log at the end: %s", i, difference)
		}
	}
	r := &report{acknowledged: o.acknowledged, arrivals: arrivals, log: log, followed: log, deaths: o.deaths()}
	r.checkDelivered(wrong)
	r.checkOrder(wrong)
	// The delivery of a run that has ended is cancelled when it is claimed again.
	r.checkComplete(wrong, byMessage(slices.DeleteFunc(slices.Clone(log), func(e logEntry) bool { return e.URL == o.workflow })))
	o.checkLimits(wrong, log)
	o.checkQueueOrder(wrong, log)
	longest := o.checkRepeated(wrong, arrivals)
	o.checkRuns(wrong, c)
	wrong.report(o.t)
	if *databases > 1 {
		o.fleet.end() // they have no snapshot together
	} else {
		await(o.t, "all users are divided", o.fleet.allDivided)
	}
	mustRun(o.t, "check", "--database-url", o.fleet.url)
	o.t.Logf("%d deaths of nodes and one of the database, %d messages and %d runs acknowledged, %d arrivals, %d of them repeated, take-over within %v",
		len(o.fleet.deaths()), len(o.acknowledged), len(o.runs), r.countArrivals(), r.countRepeated(), longest.Round(time.Millisecond))
}

// waitForEnd lets the followers read on until every message has ended, and returns the
// whole log.
func (o *clusterOrdeal) waitForEnd(c *client) []logEntry {
	o.t.Helper()
	for _, f := range o.followers {
		f.waitForEnd(o.t, c, o.acknowledged)
	}
	return c.allLogs(o.t)
}

// deaths returns when attempts may have been lost.
func (o *clusterOrdeal) deaths() []death {
	all := []death{o.outage}
	for _, d := range o.fleet.deaths() {
		d.to = d.to.Add(takeOver())
		all = append(all, d)
	}
	return all
}

// checkLimits: no more attempts arrive at once, and no more begin in a second, than may. When
// they begin is what the log says, and none arrives before that.
func (o *clusterOrdeal) checkLimits(wrong *problems, log []logEntry) {
	for lane, limit := range map[string]int{laneLine: 1, laneNarrow: narrowWidth} {
		if most := o.meter.mostInFlight(lane); most > limit {
			wrong.add("%d attempts of %s were in flight at once, the limit is %d", most, lane, limit)
		}
	}
	attempts, _ := readAttempts(log)
	paced := flowLane{key: lanePaced, rate: pacedRate, period: time.Second}
	begun := attempts[lanePaced]
	if begun == nil {
		wrong.add("no attempt of %s began", lanePaced)
		return
	}
	if at := paced.firstExcess(begun.starts); at >= 0 {
		wrong.add("attempt %d of %s began too early for %d in a second", at, lanePaced, pacedRate)
	}
	checkBegun(wrong, log, slices.DeleteFunc(o.meter.inOrder(), func(a arrival) bool {
		return !strings.HasSuffix(a.path, "/"+lanePaced)
	}))
}

// checkBegun: each attempt that arrives has begun before, by the log.
func checkBegun(wrong *problems, log []logEntry, arrivals []arrival) {
	begun := make(map[string][]int64) // by message, Unix ms
	for _, entry := range log {
		if entry.State == posthaste.StateActive {
			begun[entry.MessageID] = append(begun[entry.MessageID], entry.Time)
		}
	}
	arrived := make(map[string]int)
	for _, a := range arrivals {
		nth, times := arrived[a.messageID], begun[a.messageID]
		if nth >= len(times) || a.at.UnixMilli() < times[nth] {
			wrong.add("attempt %d of %s arrived at %d, attempts began at %d", nth, a.messageID, a.at.UnixMilli(), times)
		}
		arrived[a.messageID]++
	}
}

// checkQueueOrder: messages of the queue arrive in the order in which they were
// accepted, and none before the one before it was delivered.
func (o *clusterOrdeal) checkQueueOrder(wrong *problems, log []logEntry) {
	var accepted, arrived []string
	for _, entry := range log {
		if entry.State == posthaste.StateCreated && strings.HasSuffix(entry.URL, "/"+laneLine) {
			accepted = append(accepted, entry.MessageID)
		}
	}
	for _, a := range o.meter.inOrder() {
		if strings.HasSuffix(a.path, "/"+laneLine) && (len(arrived) == 0 || arrived[len(arrived)-1] != a.messageID) {
			arrived = append(arrived, a.messageID)
		}
	}
	if !slices.Equal(accepted, arrived) {
		wrong.add("the queue accepted %d messages, and %d arrived in another order", len(accepted), len(arrived))
	}
}

// checkRepeated: an attempt is made again only if the process that had made it died, and
// soon after. It returns the longest time that took.
func (o *clusterOrdeal) checkRepeated(wrong *problems, arrivals map[string][]arrival) (longest time.Duration) {
	deaths := o.fleet.deaths()
	for id, all := range arrivals {
		for i := 1; i < len(all); i++ {
			first, again := all[i-1], all[i]
			if first.retried != again.retried {
				continue
			}
			d, died := deaths[first.region]
			if !died {
				wrong.add("%s arrived as retry %d from %s and from %s, and the first had not died", id, first.retried, first.region, again.region)
				continue
			}
			took := again.at.Sub(d.from)
			if d.from.Before(o.outage.to) && again.at.After(o.outage.from) {
				continue // nobody can take over what is in a database that is away
			}
			if longest = max(longest, took); took > takeOver() {
				wrong.add("%s was taken over %v after %s had died, want %v at most", id, took, first.region, takeOver())
			}
		}
	}
	return longest
}

// checkRuns: every run that was acknowledged has succeeded.
func (o *clusterOrdeal) checkRuns(wrong *problems, c *client) {
	succeeded := map[string]bool{}
	query := url.Values{"state": {"RUN_SUCCESS"}, "count": {"100"}, "trimBody": {"0"}}
	for {
		var page struct {
			Cursor string `json:"cursor"`
			Runs   []struct {
				WorkflowRunID string `json:"workflowRunId"`
			} `json:"runs"`
		}
		mustCall(o.t, c, http.MethodGet, "/v2/workflows/logs?"+query.Encode(), nil, "", &page)
		for _, run := range page.Runs {
			succeeded[run.WorkflowRunID] = true
		}
		if page.Cursor == "" {
			break
		}
		query.Set("cursor", page.Cursor)
	}
	for id := range o.runs {
		if !succeeded[id] {
			wrong.add("run %s was acknowledged and has not succeeded", id)
		}
	}
}
