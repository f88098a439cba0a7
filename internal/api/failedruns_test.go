package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/api"
	"posthaste/internal/engine"
	"posthaste/internal/eventlog"
	"posthaste/internal/ledger"
	"posthaste/internal/openapi/openapitest"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/store/storetest"
	"posthaste/internal/workflow"
)

// restartWorld is a surface in front of real workflows, a real engine and a real
// store, for runs that fail and are restarted.
type restartWorld struct {
	*testing.T
	handler   http.Handler
	store     store.Store
	workflows *workflow.Service
	endpoint  *endpoint
}

// sequential skips a test under the race detector (make test), in which nothing new happens at the same time.
func sequential(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it is run without the race detector")
	}
}

// inRestartWorld runs a test in a synctest bubble.
func inRestartWorld(t *testing.T, test func(w *restartWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := ledger.Over(lsm.Open("data", lsm.Options{FS: vfs.NewMem()}))
		if err != nil {
			t.Fatal(err)
		}
		limits := engine.Limits{Retries: 10, Delay: 24 * time.Hour}
		w := workflow.New(workflow.Options{Store: s, Limits: limits, Logger: slog.New(slog.DiscardHandler)})
		m := &restartWorld{T: t, store: s, workflows: w, endpoint: &endpoint{workflows: w, released: make(chan struct{})}}
		e := engine.New(engine.Options{
			Store:         s,
			Dispatcher:    m.endpoint,
			Runs:          w,
			Logger:        slog.New(slog.DiscardHandler),
			Limits:        limits,
			ActionWorkers: w.ActionWorkers(),
		})
		e.Start()
		defer func() {
			m.endpoint.release()
			e.Stop(context.Background())
			storetest.Audit(t, s, "ann", nil)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		m.handler = openapitest.Handler(t, api.New(api.Options{
			Engine:         e,
			Workflows:      w,
			Log:            eventlog.New(eventlog.Options{Store: s}),
			Keyring:        fakeKeyring{},
			Authenticator:  fakeTokens{},
			CheckHost:      refuseMetadata,
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
			Logger:         slog.New(slog.NewTextHandler(t.Output(), nil)),
		}))
		test(m)
	})
}

// endpoint is a Dispatcher that is the endpoint of every workflow. It fails each run
// with the status at the end of its URL until it is repaired, and then finishes each.
// Failure callbacks are answered by what is at the end of theirs: ok, fail or slow.
type endpoint struct {
	workflows *workflow.Service
	released  chan struct{} // closed when what is slow is to end

	releasing sync.Once

	mu       sync.Mutex
	repaired bool
	first    map[string]*posthaste.Message // what was delivered first, by run id
}

func (e *endpoint) repair() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.repaired = true
}

// release ends what is slow, from now on and by failing.
func (e *endpoint) release() { e.releasing.Do(func() { close(e.released) }) }

// Attempt implements engine.Dispatcher.
func (e *endpoint) Attempt(_ context.Context, m *posthaste.Message, _ int) posthaste.Outcome {
	const takes = 5 * time.Millisecond
	end := m.URL[strings.LastIndexByte(m.URL, '/')+1:]
	if end == "slow" {
		<-e.released
		return posthaste.Outcome{Error: "no answer"}
	}
	time.Sleep(takes)
	switch {
	case end == "ok":
		return delivered(nil, `{"result":"told"}`)
	case m.Run == nil, m.Run.CallType == posthaste.CallFailure:
		return failedWith("489")
	case e.note(m):
		run := workflow.RunID{ID: m.Run.ID, CreatedAt: m.Run.CreatedAt}
		if err := e.workflows.Finish(context.Background(), m.User, run, nil); err != nil {
			return posthaste.Outcome{Error: err.Error()}
		}
		return delivered(http.Header{"Upstash-Workflow-Sdk-Version": {"1"}}, "{}")
	default:
		return failedWith(end)
	}
}

func failedWith(status string) posthaste.Outcome {
	response := &posthaste.Response{Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"message":"broken"}`)}
	if _, err := fmt.Sscan(status, &response.Status); err != nil {
		return posthaste.Outcome{Error: "no answer"}
	}
	return posthaste.Outcome{Error: status, Response: response}
}

// note writes down the first delivery of a run and reports whether runs succeed now.
func (e *endpoint) note(m *posthaste.Message) (repaired bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.first == nil {
		e.first = map[string]*posthaste.Message{}
	}
	if e.first[m.Run.ID] == nil {
		e.first[m.Run.ID] = m
	}
	return e.repaired
}

// firstDelivery returns what was delivered first for a run.
func (e *endpoint) firstDelivery(runID string) *posthaste.Message {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.first[runID]
}

// fail triggers runs and waits until they have failed.
func (w *restartWorld) fail(items ...workflow.Item) {
	w.Helper()
	w.failWithin(time.Minute, items...)
}

func (w *restartWorld) failWithin(d time.Duration, items ...workflow.Item) {
	w.Helper()
	for i := range items {
		items[i].Init = true
		items[i].Features = posthaste.FeatureInitialBody | posthaste.FeatureTriggerOnConfig
		items[i].Retries = retries(0)
		if items[i].FailureCallback != nil { // it names its run, as SDKs have it
			items[i].FailureCallback.Given["Upstash-Failure-Callback-Workflow-Runid"] = []string{items[i].RunID}
		}
	}
	for some := range slices.Chunk(items, 100) {
		if _, err := w.workflows.Submit(w.Context(), "ann", some); err != nil {
			w.Fatal(err)
		}
	}
	w.wait(d)
}

// failMany fails so many runs of one kind, whose payloads and ids are numbered.
func (w *restartWorld) failMany(n int) {
	w.Helper()
	items := make([]workflow.Item, n)
	for i := range items {
		items[i] = newItem(i)
	}
	w.fail(items...)
}

// newItem returns a trigger with everything that a run keeps.
func newItem(n int) workflow.Item {
	item := workflow.Item{RunID: fmt.Sprintf("wfr_failed_%04d", n)}
	item.Destination = "https://a.example/flow/489"
	item.Body = fmt.Appendf(nil, `{"number":%d}`, n)
	item.CallerIP = "203.0.113.1"
	item.Settings = posthaste.Settings{
		Method:      http.MethodPut,
		Header:      http.Header{"Content-Type": {"text/x-number"}, "X-Tenant": {"acme"}, "Upstash-Label": {"a,b"}},
		RetryDelay:  "1000 * retried",
		Timeout:     time.Minute,
		Labels:      []string{"a", "b"},
		FlowControl: posthaste.FlowControl{Key: "k", FlowLimit: posthaste.FlowLimit{Parallelism: 1000}},
		FailureCallback: &posthaste.Callback{
			URL:      "https://b.example/ok",
			Settings: posthaste.Settings{Header: http.Header{"Upstash-Label": {"a,b"}}, Retries: retries(1)},
			Given:    http.Header{"Upstash-Label": {"a,b"}},
		},
		Redact:  posthaste.Redaction{Headers: []string{"X-Tenant"}},
		Dialect: posthaste.DialectUpstash,
	}
	return item
}

// wait lets virtual time go by.
func (w *restartWorld) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// call sends a request without waiting for what it starts. Header lines follow it.
func (w *restartWorld) call(method, path, body string, header ...string) *httptest.ResponseRecorder {
	w.Helper()
	r := newRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = "10.0.0.1:80"
	r.Header.Set("X-Forwarded-For", "192.0.2.7") // who restarts
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	return do(w.handler, r)
}

// ask sends a request that has to succeed and decodes the answer.
func ask[T any](w *restartWorld, method, path, body string, header ...string) (answer T) {
	w.Helper()
	response := w.call(method, path, body, header...)
	if response.Code/100 != 2 {
		w.Fatalf("%s %s %s: %d %s", method, path, body, response.Code, response.Body)
	}
	if err := json.Unmarshal(response.Body.Bytes(), &answer); err != nil {
		w.Fatalf("%s %s: %v: %s", method, path, err, response.Body)
	}
	return answer
}

// restarted is the answer to a restart.
type restarted struct {
	Cursor       string
	WorkflowRuns []restartedRun
	Failures     []refused
}

type restartedRun struct {
	WorkflowRunID     string
	WorkflowCreatedAt int64
	DLQID             string
}

func (r restarted) dlqIDs() []string {
	ids := []string{}
	for _, run := range r.WorkflowRuns {
		ids = append(ids, run.DLQID)
	}
	return ids
}

const restartPath = "/v2/workflows/dlq/restart"

func (w *restartWorld) restart(params string, header ...string) restarted {
	w.Helper()
	return ask[restarted](w, "POST", restartPath+"?"+params, "", header...)
}

// sweep restarts page by page to the end, and returns the pages.
func (w *restartWorld) sweep(params string, header ...string) (pages []restarted) {
	w.Helper()
	const tooMany = 100
	for cursor := ""; ; {
		page := w.restart(params+cursor, header...)
		pages = append(pages, page)
		switch {
		case page.Cursor == "":
			return pages
		case len(pages) == tooMany:
			w.Fatalf("a sweep has no end: after %d pages there is the cursor %q", len(pages), page.Cursor)
		}
		cursor = "&cursor=" + page.Cursor
	}
}

// failedRun is a run in the DLQ, with all that is known of it.
type failedRun struct {
	Run      *posthaste.Run
	Letter   *posthaste.DeadLetter
	Payload  []byte
	Delivery *posthaste.Message // the first, as it was sent
	Log      []posthaste.Event
}

func (f failedRun) id() string { return f.Letter.ID.String() }

// inDLQ returns what is in the DLQ, the oldest failure first.
func (w *restartWorld) inDLQ() []failedRun {
	w.Helper()
	query := store.RunQuery{Failed: true, High: posthaste.MaxPosition, OldestFirst: true, Limit: 1000}
	page, err := w.store.Runs(w.Context(), "ann", query)
	if err != nil || page.More {
		w.Fatalf("read the DLQ: more %v, error %v", page.More, err)
	}
	logs := w.logs()
	all := []failedRun{}
	for i, run := range page.Runs {
		all = append(all, failedRun{
			Run:      run,
			Letter:   page.DeadLetters[i],
			Payload:  w.payload(run),
			Delivery: w.endpoint.firstDelivery(run.ID),
			Log:      logs[run.ID],
		})
	}
	return all
}

func (w *restartWorld) payload(run *posthaste.Run) []byte {
	w.Helper()
	entries, err := w.store.RunEntries(w.Context(), "ann", run.Position, 0, 1)
	if err != nil || len(entries) == 0 {
		w.Fatalf("read the list of %s: %d entries, error %v", run.ID, len(entries), err)
	}
	return entries[0].Body
}

func idsOf(runs []failedRun) []string {
	ids := []string{}
	for _, run := range runs {
		ids = append(ids, run.id())
	}
	return ids
}

// logs returns the log of each run, by its id, the oldest event first.
func (w *restartWorld) logs() map[string][]posthaste.Event {
	w.Helper()
	logs := map[string][]posthaste.Event{}
	query := store.EventQuery{Filter: posthaste.Filter{OfRuns: true}, High: posthaste.MaxPosition, OldestFirst: true, Limit: 1000}
	for {
		page, err := store.ReadEvents(w.Context(), w.store, "ann", query)
		if err != nil {
			w.Fatalf("read the log: %v", err)
		}
		for _, entry := range page.Entries {
			id := entry.Message.Run.ID
			logs[id] = append(logs[id], entry.Event)
		}
		if !page.More {
			return logs
		}
		query.Low = page.Next
	}
}

// same fails the test unless two values are alike.
func (w *restartWorld) same(what string, want, got any) {
	w.Helper()
	if diff := cmp.Diff(want, got, bodiesAsOne); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// bodiesAsOne compares bodies as a whole: by its bytes one of a megabyte takes a second.
var bodiesAsOne = cmp.Comparer(func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) })

// wantRestarted audits the whole state after some of the runs that were in the DLQ have
// been restarted, as the results say, and their endpoint has finished them. change
// makes of the settings of a failed run those of the new one.
func (w *restartWorld) wantRestarted(before, chosen []failedRun, results restarted, change func(*posthaste.Settings)) {
	w.Helper()
	w.same("restarted entries", idsOf(chosen), results.dlqIDs())
	known := map[string]bool{}
	for _, f := range before {
		known[f.Run.ID] = true
	}
	logs := w.logs()
	for i, f := range chosen {
		id := results.WorkflowRuns[i].WorkflowRunID
		if known[id] || !strings.HasPrefix(id, "wfr_") {
			w.Errorf("run %s became %q, a new random id is expected", f.Run.ID, id)
		}
		known[id] = true
		run := w.wantSuccessor(f, id, results.WorkflowRuns[i].WorkflowCreatedAt, change)
		w.wantDelivery(f, run, change)
		w.same("log of the new run", []string{"RUN_STARTED", "CREATED", "ACTIVE", "RUN_SUCCESS", "DELIVERED"}, statesOf(logs[id]))
		w.same("log of the failed run", f.Log, logs[f.Run.ID])
	}
	gone := results.dlqIDs()
	stay := slices.DeleteFunc(slices.Clone(before), func(f failedRun) bool { return slices.Contains(gone, f.id()) })
	w.same("entries that stay", stay, w.inDLQ())
}

// wantSuccessor audits a run that was restarted and the one in its place, which it
// returns.
func (w *restartWorld) wantSuccessor(f failedRun, id string, createdAt int64, change func(*posthaste.Settings)) *posthaste.Run {
	w.Helper()
	run, err := w.store.LatestRun(w.Context(), "ann", id)
	if err != nil {
		w.Fatalf("run %s in place of %s: %v", id, f.Run.ID, err)
	}
	w.same("creation", createdAt, run.CreatedAt.UnixMilli())
	w.same("payload", string(f.Payload), string(w.payload(run)))

	want := *f.Run
	want.RunRef = posthaste.RunRef{ID: id, URL: f.Run.URL, CreatedAt: run.CreatedAt, Position: run.Position}
	want.CallerIP, want.FirstID = "192.0.2.7", run.FirstID
	want.Origin = &posthaste.RunOrigin{RunRef: f.Run.RunRef, DeadLetterID: f.Letter.ID}
	want.Settings = ofNewRun(f.Run.Settings, f.Run.ID, id, change)
	if change != nil {
		want.Overridden = run.Overridden
	}
	want.RunProgress = posthaste.RunProgress{State: posthaste.RunSuccess, Entries: 1, ListBytes: len(f.Payload), CompletedAt: run.CompletedAt}
	w.same("run in place of "+f.Run.ID, &want, run)

	old, err := w.store.Run(w.Context(), "ann", f.Run.Position)
	if err != nil {
		w.Fatal(err)
	}
	was := *f.Run
	was.Successor = &run.RunRef
	w.same("failed run", &was, old)
	return run
}

// ofNewRun returns the settings of a failed run as those of the run in its place.
func ofNewRun(s posthaste.Settings, oldID, newID string, change func(*posthaste.Settings)) posthaste.Settings {
	s.Header = s.Header.Clone()
	if s.FailureCallback != nil {
		callback := *s.FailureCallback
		callback.Given = callback.Given.Clone()
		for name, values := range callback.Given {
			if values[0] == oldID {
				callback.Given[name] = []string{newID}
			}
		}
		s.FailureCallback = &callback
	}
	if change != nil {
		change(&s)
	}
	return s
}

// wantDelivery requires the first delivery of a new run to be that of the run it
// stands in for, but for what tells them apart.
func (w *restartWorld) wantDelivery(f failedRun, run *posthaste.Run, change func(*posthaste.Settings)) {
	w.Helper()
	got := w.endpoint.firstDelivery(run.ID)
	if got == nil {
		w.Errorf("run %s was not delivered", run.ID)
		return
	}
	want := *f.Delivery
	want.ID, want.CallerIP = run.FirstID, run.CallerIP
	want.CreatedAt, want.NotBefore = got.CreatedAt, got.NotBefore
	want.Run = &posthaste.RunLink{RunRef: run.RunRef, CallType: posthaste.CallStep, Features: f.Run.Features, ListBytes: len(f.Payload)}
	want.Body = []byte(strings.Replace(string(want.Body), f.Delivery.ID.String(), run.FirstID.String(), 1))
	want.Settings = ofNewRun(want.Settings, f.Run.ID, run.ID, change)
	want.FailureCallback = nil
	want.Header.Set("Upstash-Workflow-Runid", run.ID)
	want.Header.Set("Upstash-Workflow-Createdat", fmt.Sprint(run.CreatedAt.UnixMilli()))
	w.same("first delivery of the new run", &want, got)
}

func statesOf(log []posthaste.Event) (states []string) {
	for _, event := range log {
		states = append(states, string(event.State))
	}
	return states
}
