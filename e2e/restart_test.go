package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

var restartRuns = flag.Int("restart-runs", 400, "how many failed runs the restart test sweeps")

// TestRestart sweeps the DLQ of runs while their endpoint goes on failing, and while
// the server is killed at random moments: a sweep ends, and each run that had failed
// when it began was restarted by it exactly once (contract 4.2 and decisions 8 to
// 10). For a long run:
//
//	go test -race -run TestRestart -timeout 1h ./e2e -restart-runs=10000
func TestRestart(t *testing.T) {
	t.Parallel()
	random := newRandom(t)
	r := &restarts{directory: t.TempDir(), endpoint: newBrokenWorkflow(t)}
	r.trigger(t, *restartRuns)
	kills := max(5, *restartRuns/100)
	tests := []struct {
		name    string
		clients int
		key     string // idempotency key of all clients
		kills   int    // at most
	}{
		{"one client", 1, "", 0},
		{"one client, killed", 1, "", kills},
		{"one client with an idempotency key, killed", 1, "one", kills},
		{"two clients, killed", 2, "", kills},
		{"two clients with the same idempotency key, killed", 2, "two", kills},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := r.letters
			told := r.sweep(t, random, test.clients, test.key, test.kills)
			r.settle(t)
			r.checkStarts(t)
			r.checkLetters(t, before)
			checkTold(t, before, told, test.key != "", test.kills > 0)
		})
	}
}

// TestRestartThroughTwoNodes lets two clients sweep the same failed runs through different
// nodes: between them they are told of each run once, and each was restarted once. For a
// long run:
//
//	go test -race -run TestRestartThroughTwoNodes -timeout 1h ./e2e -backend postgres -restart-runs=5000
func TestRestartThroughTwoNodes(t *testing.T) {
	needPostgres(t)
	t.Parallel()
	r := &restarts{directory: t.TempDir(), endpoint: newBrokenWorkflow(t)}
	r.trigger(t, *restartRuns)
	before := r.letters
	told := make([][]string, 2)
	r.withServer(t, func(one *client) {
		r.withServer(t, func(other *client) {
			begun := r.endpoint.holdUntil(2)
			var working sync.WaitGroup
			for i, c := range []*client{one, other} {
				g := newGate()
				g.open(c)
				working.Go(func() { told[i] = sweepThrough(t, g, "", len(before), begun) })
			}
			working.Wait()
		})
	})
	r.settle(t)
	r.checkStarts(t)
	r.checkLetters(t, before)
	checkTold(t, before, told, false, true)
	if all := len(told[0]) + len(told[1]); all != len(before) {
		t.Errorf("the clients were told of %d restarts, want %d", all, len(before))
	}
	t.Logf("one client was told of %d restarts, the other of %d", len(told[0]), len(told[1]))
}

// restarts is one data directory with runs that fail whenever they are started.
type restarts struct {
	directory string
	endpoint  *brokenWorkflow
	rounds    int      // how often each run was started
	letters   []letter // the DLQ after the last round, the oldest failure first
}

// letter is an entry of the DLQ of runs, as much of it as the test compares.
type letter struct {
	DLQID         string `json:"dlqId"`
	WorkflowRunID string `json:"workflowRunId"`
	Body          string `json:"body"` // the number of the run
}

// withServer calls a function while a server runs.
func (r *restarts) withServer(t *testing.T, do func(c *client)) {
	t.Helper()
	s := launchServe(t, r.directory, "--log-level", "warn")
	defer s.stop(t)
	do(newClient(s.url(t), testToken))
}

// trigger starts runs whose payloads are numbers, and waits until they have failed.
func (r *restarts) trigger(t *testing.T, n int) {
	t.Helper()
	const atOnce = 100
	r.withServer(t, func(c *client) {
		for first := 0; first < n; first += atOnce {
			var items []map[string]any
			for number := first; number < min(first+atOnce, n); number++ {
				items = append(items, map[string]any{"destination": r.endpoint.url, "body": strconv.Itoa(number), "headers": map[string]string{"Upstash-Retries": "0"}})
			}
			body, err := json.Marshal(items)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.call(t.Context(), http.MethodPost, "/v2/batch/trigger", nil, string(body), nil); err != nil {
				t.Fatalf("trigger: %v", err)
			}
		}
	})
	r.settle(t)
	if len(r.letters) != n {
		t.Fatalf("%d runs are in the DLQ, want %d", len(r.letters), n)
	}
	r.checkStarts(t)
}

// settle ends a round: it waits until no run goes on any more, and reads the DLQ.
func (r *restarts) settle(t *testing.T) {
	t.Helper()
	const pause = 50 * time.Millisecond
	r.rounds++
	r.withServer(t, func(c *client) {
		starts, progress := r.endpoint.starts(), time.Now()
		for c.anyRunGoesOn(t) {
			time.Sleep(pause)
			if now := r.endpoint.starts(); now > starts {
				starts, progress = now, time.Now()
			} else if time.Since(progress) > patience {
				t.Fatal("nothing more happens, and some runs go on")
			}
		}
		r.letters = c.allFailedRuns(t)
	})
}

// anyRunGoesOn reads on if a page is empty and has a cursor: those it found have ended meanwhile.
func (c *client) anyRunGoesOn(t *testing.T) bool {
	t.Helper()
	for cursor := ""; ; {
		var page struct {
			Cursor string     `json:"cursor"`
			Runs   []struct{} `json:"runs"`
		}
		query := url.Values{"count": {"1"}, "state": {"RUN_STARTED"}, "cursor": {cursor}}
		if err := c.call(t.Context(), http.MethodGet, "/v2/workflows/logs?"+query.Encode(), nil, "", &page); err != nil {
			t.Fatalf("read the log of runs: %v", err)
		}
		if cursor = page.Cursor; len(page.Runs) > 0 || cursor == "" {
			return len(page.Runs) > 0
		}
	}
}

// allFailedRuns returns the DLQ of runs, the oldest failure first.
func (c *client) allFailedRuns(t *testing.T) (all []letter) {
	t.Helper()
	for cursor := ""; ; {
		var page struct {
			Cursor   string   `json:"cursor"`
			Messages []letter `json:"messages"`
		}
		query := url.Values{"order": {"earliestFirst"}, "cursor": {cursor}}
		if err := c.call(t.Context(), http.MethodGet, "/v2/workflows/dlq?"+query.Encode(), nil, "", &page); err != nil {
			t.Fatalf("list the DLQ: %v", err)
		}
		all = append(all, page.Messages...)
		if cursor = page.Cursor; cursor == "" {
			return all
		}
	}
}

// sweep lets clients sweep the DLQ at the same time, and kills their server at random
// moments. It returns what each client was told to have been restarted.
func (r *restarts) sweep(t *testing.T, random *rand.Rand, clients int, key string, kills int) [][]string {
	t.Helper()
	g := newGate()
	told := make([][]string, clients)
	begun := r.endpoint.holdUntil(clients)
	var working sync.WaitGroup
	for i := range told {
		working.Go(func() { told[i] = sweepThrough(t, g, key, len(r.letters), begun) })
	}
	swept := make(chan struct{})
	go func() {
		working.Wait()
		close(swept)
	}()
	r.killWhile(t, g, random, kills, swept)
	r.withServer(t, func(c *client) {
		g.open(c)
		<-swept
		g.close()
	})
	return told
}

// killWhile starts servers and kills each after a short life, until the sweep is
// through.
func (r *restarts) killWhile(t *testing.T, g *gate, random *rand.Rand, kills int, swept <-chan struct{}) {
	t.Helper()
	const longestLife = 300 * time.Millisecond
	for range kills {
		s := launchServe(t, r.directory, "--log-level", "warn")
		g.open(newClient(s.url(t), testToken))
		select {
		case <-time.After(time.Duration(random.Int64N(int64(longestLife)))):
		case <-swept:
			kills = 0
		}
		g.shut()
		s.kill(t)
		if kills == 0 {
			return
		}
	}
}

// sweepThrough restarts page by page what is in the DLQ, and returns what it is told.
// When the server dies it goes on with the last cursor that it got, and without one it
// begins anew; begun is called as soon as it has one. There should be no more than so
// many entries.
func sweepThrough(t *testing.T, g *gate, key string, most int, begun func()) (told []string) {
	begin := sync.OnceFunc(begun)
	defer begin()
	header := map[string]string{}
	if key != "" {
		header["Idempotency-Key"] = key
	}
	for cursor := ""; ; {
		c, open := g.pass()
		if !open {
			return told
		}
		var page struct {
			Cursor       string   `json:"cursor"`
			WorkflowRuns []letter `json:"workflowRuns"`
		}
		query := url.Values{"count": {"20"}, "cursor": {cursor}}
		err := c.call(t.Context(), http.MethodPost, "/v2/workflows/dlq/restart?"+query.Encode(), header, "", &page)
		switch {
		case err != nil && !g.excuses(c, err):
			t.Errorf("the server was alive and failed: %v", err)
			return told
		case err != nil:
			continue
		}
		begin()
		for _, run := range page.WorkflowRuns {
			told = append(told, run.DLQID)
		}
		if cursor = page.Cursor; cursor == "" {
			return told
		}
		if len(told) > most {
			t.Errorf("the sweep does not end: %d restarts of %d runs", len(told), most)
			return told
		}
	}
}

// checkStarts requires each run to have been started once in each round.
func (r *restarts) checkStarts(t *testing.T) {
	t.Helper()
	byNumber := r.endpoint.startsByNumber()
	for _, l := range r.letters {
		if got := byNumber[l.Body]; got != r.rounds {
			t.Errorf("run %s was started %d times in %d rounds", l.Body, got, r.rounds)
		}
	}
}

// checkLetters requires the DLQ to hold, for each run that was there before, the run
// that took its place.
func (r *restarts) checkLetters(t *testing.T, before []letter) {
	t.Helper()
	now := map[string]letter{}
	for _, l := range r.letters {
		if other, twice := now[l.Body]; twice {
			t.Errorf("run %s is in the DLQ twice: %+v and %+v", l.Body, other, l)
		}
		now[l.Body] = l
	}
	for _, was := range before {
		switch l, there := now[was.Body]; {
		case !there:
			t.Errorf("run %s is lost: %+v", was.Body, was)
		case l.DLQID == was.DLQID || l.WorkflowRunID == was.WorkflowRunID:
			t.Errorf("run %s was not restarted: %+v", was.Body, l)
		}
	}
	if len(r.letters) != len(before) {
		t.Errorf("%d runs are in the DLQ, want %d", len(r.letters), len(before))
	}
}

// checkTold requires that no client was told of anything twice, or of what had not
// failed when the sweep began. Without a crash it was told of everything, in order,
// and with an idempotency key even then.
func checkTold(t *testing.T, before []letter, told [][]string, keyed, killed bool) {
	t.Helper()
	var all []string
	known := map[string]bool{}
	for _, l := range before {
		all = append(all, l.DLQID)
		known[l.DLQID] = true
	}
	if keyed || !killed {
		for i, ids := range told {
			if !slices.Equal(ids, all) {
				t.Errorf("client %d was told of %d restarts, want all %d in order", i, len(ids), len(all))
			}
		}
		return
	}
	for _, id := range slices.Concat(told...) {
		if !known[id] {
			t.Errorf("entry %s was restarted twice, or had not failed when the sweep began", id)
		}
		known[id] = false
	}
}

// brokenWorkflow is the endpoint of a workflow that fails at once and for good. It
// remembers which runs were started, by the number in their payload.
type brokenWorkflow struct {
	t   *testing.T
	url string

	mu   sync.Mutex
	runs map[string]map[string]bool // ids by number
	held chan struct{}              // closed while deliveries are answered
}

func newBrokenWorkflow(t *testing.T) *brokenWorkflow {
	t.Helper()
	b := &brokenWorkflow{t: t, runs: map[string]map[string]bool{}, held: make(chan struct{})}
	close(b.held)
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	b.url = server.URL + "/workflow"
	return b
}

// ServeHTTP answers that the run must fail (contract, workflows 3.5), and takes the
// failure callback.
func (b *brokenWorkflow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upstash-Workflow-Is-Failure") == "true" {
		return
	}
	var list []struct{ Body []byte }
	if err := json.NewDecoder(r.Body).Decode(&list); err != nil || len(list) != 1 {
		b.t.Errorf("a delivery has %d entries, %v", len(list), err)
	} else {
		b.note(string(list[0].Body), r.Header.Get("Upstash-Workflow-Runid"))
	}
	select {
	case <-b.heldUntil():
	case <-r.Context().Done():
		return
	}
	const nonRetryable = 489
	w.Header().Set("Upstash-NonRetryable-Error", "true")
	w.WriteHeader(nonRetryable)
	_, _ = fmt.Fprint(w, `{"error":"Error","message":"broken"}`)
}

// note remembers a start; a delivery that is repeated after a crash is none.
func (b *brokenWorkflow) note(number, runID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runs[number] == nil {
		b.runs[number] = map[string]bool{}
	}
	b.runs[number][runID] = true
}

// holdUntil lets no run fail until the function it returns was called so many times.
// A sweep restarts what had failed when it began. So all sweeps of a test have to begin,
// the one that a crash made begin anew too, before what they restarted fails again.
func (b *brokenWorkflow) holdUntil(calls int) (call func()) {
	held := make(chan struct{})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = held
	var awaited sync.WaitGroup
	awaited.Add(calls)
	go func() {
		awaited.Wait()
		close(held)
	}()
	return awaited.Done
}

func (b *brokenWorkflow) heldUntil() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// startsByNumber returns how often each run was started.
func (b *brokenWorkflow) startsByNumber() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	starts := map[string]int{}
	for number, ids := range b.runs {
		starts[number] = len(ids)
	}
	return starts
}

// starts returns how often all runs were started.
func (b *brokenWorkflow) starts() (n int) {
	for _, starts := range b.startsByNumber() {
		n += starts
	}
	return n
}
