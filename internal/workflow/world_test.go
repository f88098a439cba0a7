package workflow_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	gocmp "github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/workflow"
)

const user = "ann"

// quiet is for worlds in which something goes wrong on purpose.
var quiet = slog.New(slog.DiscardHandler)

// site is where the flows of the tests are: http://app/NAME.
const site = "http://app/"

// setup is what a world begins with.
type setup struct {
	flows map[string]flow // by the path of their URL
	sdk   sdk
	fault func(v visit) fault // what goes wrong on a visit; nil: nothing

	options workflow.Options
	now     func() time.Time              // nil: time.Now
	disk    *vfs.MemFS                    // nil: an empty one that forgets nothing
	nodes   []func() (store.Store, error) // open what several servers share; nil: one server has a disk
	delay   time.Duration                 // it begins so long after the start
	watch   lsm.Observer                  // of commits
	observe engine.Observer               // of attempts
	wrap    func(store.Store) store.Store // puts something between the server and its store
}

// world is a server whose store lies in memory, or several on one database, on virtual
// time, and the endpoints of some flows.
type world struct {
	*workflow.Service // that clients and endpoints call
	t                 *testing.T
	setup             setup
	servers           []server
	store             store.Store
	start             time.Time

	mu     sync.Mutex
	visits []visit
	done   map[string]int                       // how often the code of a step ran, by run and name
	bodies map[posthaste.MessageID]string       // as they were delivered first
	lists  map[posthaste.Position][]listed      // the longest that was delivered of each run
	told   map[string][]map[string]any          // what failure functions were told, by run
	behave map[string]func() *posthaste.Outcome // answers of third parties, of steps and of failure functions

	override func(v visit) *posthaste.Outcome // what a visit comes to whatever it is; nil: it decides itself
	takes    func(v visit) time.Duration      // how much longer an answer takes than latency; nil: not at all

	deleted map[posthaste.DeadLetterID]bool // from the DLQ
}

// server is one of those that serve a world.
type server struct {
	*engine.Engine
	runs  *workflow.Service
	store store.Store
}

// inWorld runs a scenario in a synctest bubble and audits what it left.
func inWorld(t *testing.T, begin setup, scenario func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, begin)
		defer w.close()
		scenario(w)
	})
}

func newWorld(t *testing.T, begin setup) *world {
	t.Helper()
	if begin.now == nil {
		begin.now = time.Now
	}
	if begin.sdk.features == 0 {
		begin.sdk = sdkTypeScript
	}
	if begin.disk == nil {
		begin.disk = vfs.NewMem()
	}
	start := time.Now()
	time.Sleep(begin.delay)
	if begin.nodes == nil {
		begin.nodes = []func() (store.Store, error){func() (store.Store, error) {
			return ledger.Over(lsm.Open("data", lsm.Options{FS: begin.disk, Observer: begin.watch}))
		}}
	}
	w := &world{
		t: t, setup: begin, start: start,
		done:   map[string]int{},
		bodies: map[posthaste.MessageID]string{},
		lists:  map[posthaste.Position][]listed{},
		told:   map[string][]map[string]any{},
		behave: map[string]func() *posthaste.Outcome{},

		deleted: map[posthaste.DeadLetterID]bool{},
	}
	for _, open := range begin.nodes {
		opened, err := open()
		if err != nil {
			t.Fatal(err)
		}
		w.servers = append(w.servers, w.newServer(opened))
	}
	w.Service, w.store = w.servers[0].runs, w.servers[0].store
	for _, s := range w.servers {
		s.Start()
		s.runs.Start()
	}
	return w
}

func (w *world) newServer(opened store.Store) server {
	served := opened
	if w.setup.wrap != nil {
		served = w.setup.wrap(opened)
	}
	options := w.setup.options
	options.Store, options.Now = served, w.setup.now
	runs := workflow.New(options)
	return server{engine.New(engine.Options{
		Store: served, Dispatcher: w, Runs: runs, Now: w.setup.now, Logger: options.Logger, Observer: w.setup.observe,
	}), runs, opened}
}

// close lets what is in flight come to its end, and audits what is stored.
func (w *world) close() {
	w.t.Helper()
	for _, s := range w.servers {
		s.Stop(context.Background())
		s.runs.Stop()
	}
	w.audit()
	for _, s := range w.servers {
		if err := s.store.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// pass lets time go by, until everything that is to happen has happened.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// at waits for a moment, told as the time since the start. It is a little after all
// that happens at that time.
func (w *world) at(d time.Duration) {
	time.Sleep(d - time.Since(w.start))
	synctest.Wait()
}

// trigger starts a run as a client does, with all that its SDK would send.
func (w *world) trigger(path, id string, edits ...func(*workflow.Item)) workflow.Receipt {
	w.t.Helper()
	receipts, err := w.Submit(w.t.Context(), user, []workflow.Item{w.setup.sdk.trigger(site+path, id, "payload", edits...)})
	if err != nil {
		w.t.Fatal(err)
	}
	return receipts[0]
}

// retries lets the deliveries of a run be tried again so often, a second after each
// other.
func retries(n int) func(*workflow.Item) {
	return func(item *workflow.Item) { item.Retries, item.RetryDelay = &n, "1000" }
}

// replaysNothing lets the endpoints answer as SDKs do that have nothing to do.
func (w *world) replaysNothing() {
	w.override = func(visit) *posthaste.Outcome {
		o := answered(nil)
		return &o
	}
}

func without(features posthaste.Features) func(*workflow.Item) {
	return func(item *workflow.Item) { item.Features &^= features }
}

// notify gives an event to a run.
func (w *world) notify(run, event, data string) workflow.Notified {
	w.t.Helper()
	told, err := w.NotifyRun(w.t.Context(), user, run, event, []byte(data))
	if err != nil {
		w.t.Errorf("notify run %s of %s: %v", run, event, err)
	}
	return told
}

// run returns the latest run with an id.
func (w *world) run(id string) *posthaste.Run {
	w.t.Helper()
	run, err := w.store.LatestRun(w.t.Context(), user, id)
	if err != nil {
		w.t.Fatalf("run %s: %v", id, err)
	}
	return run
}

// wantSuccess requires a run to have returned a text.
func (w *world) wantSuccess(id, result string) {
	w.t.Helper()
	w.wantState(id, posthaste.RunSuccess)
	if run := w.run(id); run.Result == nil || *run.Result != result {
		w.t.Errorf("run %s returned %v, want %q", id, text(run.Result), result)
	}
}

func (w *world) wantState(id string, state posthaste.RunState) {
	w.t.Helper()
	if run := w.run(id); run.State != state {
		w.t.Errorf("run %s is %s, want %s", id, run.State, state)
	}
}

// wantFailure requires a run to have failed with a status and for a reason, and to be
// in the DLQ.
func (w *world) wantFailure(id string, status int, reason string) {
	w.t.Helper()
	w.wantState(id, posthaste.RunFailed)
	letter := w.letter(id)
	if letter == nil {
		return
	}
	if run := w.run(id); run.FailedStatus != status || letter.Error != reason {
		w.t.Errorf("run %s failed with status %d: %q, want %d: %q", id, run.FailedStatus, letter.Error, status, reason)
	}
}

// letter returns the entry of a run in the DLQ.
func (w *world) letter(id string) *posthaste.DeadLetter {
	w.t.Helper()
	page, err := w.Failed(w.t.Context(), user, store.RunQuery{
		Filter: posthaste.Filter{RunIDs: []string{id}}, High: posthaste.MaxPosition, Limit: 2,
	})
	if err != nil || len(page.DeadLetters) != 1 {
		w.t.Errorf("%d entries in the DLQ of run %s, %v, want one", len(page.DeadLetters), id, err)
		return nil
	}
	return page.DeadLetters[0]
}

// wantCallback requires the failure callback of a run to stand somewhere; nowhere if
// there is none.
func (w *world) wantCallback(id string, state posthaste.CallbackState) {
	w.t.Helper()
	var got posthaste.CallbackState
	if reported := w.run(id).Reported; reported != nil {
		got = reported.State
	}
	if got != state {
		w.t.Errorf("the failure callback of run %s is %q, want %q", id, got, state)
	}
}

// wantVisits requires exactly these requests: the time since the start in
// milliseconds, the path, and what was asked for. Those of the same moment are in
// the order of their text.
func (w *world) wantVisits(want ...string) {
	w.t.Helper()
	w.mu.Lock()
	sorted := slices.SortedFunc(slices.Values(w.visits), func(a, b visit) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.String(), b.String()))
	})
	w.mu.Unlock()
	got := make([]string, len(sorted))
	for i, v := range sorted {
		got[i] = v.String()
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		w.t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// wantDone requires the code of a step to have run so often.
func (w *world) wantDone(id, name string, times int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := w.done[id+" "+name]; got != times {
		w.t.Errorf("step %s of run %s was done %d times, want %d", name, id, got, times)
	}
}

// wantList requires the list of a run: the names of its steps, in order.
func (w *world) wantList(id string, want ...string) {
	w.t.Helper()
	var got []string
	for _, entry := range w.list(w.run(id)) {
		got = append(got, describe(entry))
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		w.t.Errorf("list of run %s (-want +got):\n%s", id, diff)
	}
}

func (w *world) list(run *posthaste.Run) []posthaste.RunEntry {
	w.t.Helper()
	entries, err := w.store.RunEntries(w.t.Context(), user, run.Position, 0, -1)
	if err != nil {
		w.t.Fatalf("list of run %s: %v", run.ID, err)
	}
	return entries
}

// describe names an entry of a list.
func describe(entry posthaste.RunEntry) string {
	step, isStep := parseStep(entry.Body)
	switch {
	case entry.Index == 0:
		return "start"
	case entry.CallType != posthaste.CallStep:
		return string(entry.CallType)
	case !isStep:
		return "?"
	default:
		return step.String()
	}
}

// String names a step.
func (w written) String() string {
	if w.isPlan() {
		return "plan " + w.Name
	}
	return w.Name
}

func text(s *string) string {
	if s == nil {
		return "nothing"
	}
	return fmt.Sprintf("%q", *s)
}

// path is the path of a URL of the tests.
func path(url string) string {
	_, path := posthaste.HostAndPath(url)
	return strings.TrimPrefix(path, "/")
}

// answers is how a destination behaves: with these statuses, the last one again and
// again.
func answers(statuses ...int) func() *posthaste.Outcome {
	n := 0
	return func() *posthaste.Outcome {
		o := outcome(statuses[min(n, len(statuses)-1)])
		n++
		return &o
	}
}

// outcome is what an attempt comes to that is answered with a status; 0: not at all.
func outcome(status int) posthaste.Outcome {
	switch {
	case status == 0:
		return posthaste.Outcome{Error: "connection reset"}
	case status < 300:
		return posthaste.Outcome{Class: posthaste.OutcomeDelivered, Response: response(status)}
	case status == 489:
		return posthaste.Outcome{Class: posthaste.OutcomePermanent, Error: "489", Response: response(status)}
	default:
		return posthaste.Outcome{Error: fmt.Sprint(status), Response: response(status)}
	}
}

func response(status int) *posthaste.Response {
	return &posthaste.Response{
		Status: status,
		Header: http.Header{"Content-Type": {"text/plain"}},
		Body:   fmt.Appendf(nil, "answer %d", status),
	}
}
