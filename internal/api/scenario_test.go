package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"posthaste"
	"posthaste/internal/admission"
	"posthaste/internal/api"
	"posthaste/internal/engine"
	"posthaste/internal/eventlog"
	"posthaste/internal/ledger"
	"posthaste/internal/openapi/openapitest"
	"posthaste/internal/runlog"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/workflow"
)

// TestScenarios plays stories of several requests against a real engine on a
// store in memory, in virtual time. The files of testdata/scenarios are named
// after the section or the row of the contract that they cover, and consist of
//
//   - request: a request, sent with a token unless it has one;
//   - response: what was answered;
//   - wait: how long to wait then;
//   - delivered: what destinations got since the last time.
//
// Ids and cursors have names in order of appearance, such as {message1}. With
// -update, responses and deliveries are written anew: read the diff.
func TestScenarios(t *testing.T) {
	sequential(t)
	files, err := filepath.Glob("testdata/scenarios/*/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		name, _ := filepath.Rel("testdata/scenarios", strings.TrimSuffix(file, ".txtar"))
		t.Run(name, func(t *testing.T) {
			scenario, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got *txtar.Archive
			inWorld(t, func(w *world) { got = w.play(scenario) })
			if *update {
				if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(txtar.Format(scenario)), string(txtar.Format(got))); diff != "" && !*update {
				t.Errorf("scenario differs (-want +got):\n%s", diff)
			}
		})
	}
}

// world is a surface in front of a real engine.
type world struct {
	*testing.T
	handler      http.Handler
	store        store.Store
	destinations *destinations
	names        names

	requests, bodies, streams *admission.Gate // of which nothing is held when a test ends
	readers                   *someTurns
}

// inWorld runs a test in a synctest bubble, whose time begins with the year 2000.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	inWorldOf(t, setting{maxBody: 200, maxBatch: 2000}, test)
}

// inLargeWorld is inWorld for bodies of a megabyte.
func inLargeWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	inWorldOf(t, setting{maxBody: 1 << 20, maxBatch: 1 << 20}, test)
}

// setting is what worlds differ in.
type setting struct {
	open              backend   // nil: onDisk
	entropy           io.Reader // of ids; nil: the same in every world
	maxBody, maxBatch int64
}

// backend opens an empty store.
type backend func(t *testing.T) store.Store

// onDisk is the embedded store, on a disk in memory.
func onDisk(t *testing.T) store.Store {
	t.Helper()
	s, err := ledger.Over(lsm.Open("data", lsm.Options{FS: vfs.NewMem()}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func inWorldOf(t *testing.T, in setting, test func(w *world)) {
	t.Helper()
	if in.open == nil {
		in.open = onDisk
	}
	if in.entropy == nil {
		in.entropy = &lockedReader{reader: rand.NewChaCha8([32]byte{})}
	}
	synctest.Test(t, func(t *testing.T) {
		s := in.open(t)
		w := &world{
			T: t, store: s, destinations: &destinations{}, names: newNames(),
			requests: admission.New(admission.Options{Capacity: 20, Share: 10, Patience: time.Second}),
			bodies:   admission.New(admission.Options{Capacity: 4 << 20, Share: 2 << 20, Patience: time.Second}),
			streams:  admission.New(admission.Options{Capacity: 40, Share: 20}),
			readers:  &someTurns{left: 1_000_000},
		}
		limits := engine.Limits{Retries: 10, Delay: 24 * time.Hour, Queues: 2, Parallelism: 5, Schedules: 2}
		workflows := workflow.New(workflow.Options{
			Store:   s,
			Logger:  slog.New(slog.DiscardHandler),
			Limits:  limits,
			Entropy: in.entropy,
		})
		e := engine.New(engine.Options{
			Store:         s,
			Dispatcher:    w.destinations,
			Runs:          workflows,
			Logger:        slog.New(slog.DiscardHandler),
			Concurrency:   100,
			Limits:        limits,
			Entropy:       in.entropy,
			ActionWorkers: workflows.ActionWorkers(),
		})
		e.Start()
		workflows.Start()
		defer func() {
			workflows.Stop()
			e.Stop(context.Background())
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		w.handler = openapitest.Handler(t, api.New(api.Options{
			Engine:        e,
			Workflows:     workflows,
			Log:           eventlog.New(eventlog.Options{Store: s}),
			RunLog:        runlog.New(runlog.Options{Store: s}),
			Keyring:       fakeKeyring{},
			Authenticator: fakeTokens{},
			MaxBody:       in.maxBody,
			MaxBatch:      in.maxBatch,
			Requests:      w.requests,
			BodyBytes:     w.bodies,
			Streams:       w.streams,
			Readers:       w.readers,
			CheckHost:     refuseMetadata,
			Logger:        slog.New(slog.NewTextHandler(t.Output(), nil)),
		}))
		test(w)
		synctest.Wait()
		for name, gate := range map[string]*admission.Gate{"requests": w.requests, "bytes of bodies": w.bodies, "streams": w.streams} {
			if held := gate.Usage().Held; held != 0 {
				t.Errorf("%d %s are held for ever", held, name)
			}
		}
	})
}

// lockedReader is entropy for many goroutines.
type lockedReader struct {
	mu     sync.Mutex
	reader *rand.ChaCha8
}

func (r *lockedReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reader.Read(p)
}

// destinations is a Dispatcher whose destinations do what their paths say:
// /fail/503 answers with that status, /cut with more than is kept, /down does not answer, /slow takes an hour,
// /workflow answers as the SDK of a workflow, /page as anything else does, and all
// others take what they get.
type destinations struct {
	takes func(m *posthaste.Message, retried int) time.Duration // nil: 10 ms, but for /slow

	mu   sync.Mutex
	seen []string
}

func (d *destinations) Attempt(ctx context.Context, m *posthaste.Message, retried int) posthaste.Outcome {
	began := time.Now()
	outcome := d.outcome(ctx, m, retried)
	outcome.Duration = time.Since(began)
	return outcome
}

func (d *destinations) outcome(ctx context.Context, m *posthaste.Message, retried int) posthaste.Outcome {
	d.note(m, retried)
	_, path := posthaste.HostAndPath(m.URL)
	takes := 10 * time.Millisecond
	if strings.HasPrefix(path, "/slow") {
		takes = time.Hour
	}
	if d.takes != nil {
		takes = d.takes(m, retried)
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	switch status, failing := strings.CutPrefix(path, "/fail/"); {
	case failing:
		response := &posthaste.Response{Header: http.Header{"X-Reason": {"a test"}}, Body: []byte("no")}
		_, _ = fmt.Sscan(status, &response.Status)
		return posthaste.Outcome{Error: "the destination answered " + status, Response: response}
	case path == "/cut":
		response := &posthaste.Response{Status: http.StatusBadGateway, Body: []byte("no, be"), Truncated: true}
		return posthaste.Outcome{Error: "the destination answered much", Response: response}
	case path == "/down":
		return posthaste.Outcome{Error: "the destination does not answer"}
	case path == "/page":
		return delivered(http.Header{"Content-Type": {"text/html"}}, "a page")
	case strings.HasPrefix(path, "/workflow"):
		return delivered(http.Header{"Upstash-Workflow-Sdk-Version": {"1"}, "Upstash-Workflow-Sdk": {"v1.3.3"}}, "{}")
	}
	return posthaste.Outcome{Class: posthaste.OutcomeDelivered}
}

func delivered(header http.Header, body string) posthaste.Outcome {
	response := &posthaste.Response{Status: http.StatusOK, Header: header, Body: []byte(body)}
	return posthaste.Outcome{Class: posthaste.OutcomeDelivered, Response: response}
}

// note writes down an attempt, in one line.
func (d *destinations) note(m *posthaste.Message, retried int) {
	var line strings.Builder
	fmt.Fprintf(&line, "%s %s retried %d", m.Verb(), m.URL, retried)
	var names []string
	for name := range m.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&line, " %s: %s", name, strings.Join(m.Header[name], ", "))
	}
	switch {
	case !m.SourceID.IsZero():
		fmt.Fprintf(&line, " callback of %s", m.SourceID)
	case m.Run != nil && m.Run.CallType == posthaste.CallStep:
		line.WriteString(describeList(m.Body))
	default:
		fmt.Fprintf(&line, " %q", m.Body)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, line.String())
}

// describeList makes the list of a run readable.
func describeList(body []byte) string {
	var entries []struct {
		MessageID, CallType string
		Body                []byte
	}
	if err := json.Unmarshal(body, &entries); err != nil {
		return fmt.Sprintf(" no list: %q", body)
	}
	var text strings.Builder
	for _, entry := range entries {
		fmt.Fprintf(&text, "\n    %s %s %q", entry.MessageID, entry.CallType, entry.Body)
	}
	return text.String()
}

// take returns the attempts since the last call.
func (d *destinations) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.seen
	d.seen = nil
	return lines
}

// play returns a scenario as it turns out.
func (w *world) play(scenario *txtar.Archive) *txtar.Archive {
	w.Helper()
	got := &txtar.Archive{Comment: scenario.Comment}
	for _, file := range scenario.Files {
		switch file.Name {
		case "request":
			response := w.send(w.names.insert(file.Data))
			got.Files = append(got.Files, file, txtar.File{Name: "response", Data: w.names.remove(describeResponse(response))})
		case "wait":
			got.Files = append(got.Files, file)
			w.wait(string(file.Data))
		case "delivered":
			got.Files = append(got.Files, txtar.File{Name: "delivered", Data: w.delivered()})
		case "response":
		default:
			w.Fatalf("a scenario has no %q", file.Name)
		}
	}
	return got
}

// delivered lists the attempts since the last call. Those that run at once have
// no order, so they are sorted: before what is new in them gets its names, too.
func (w *world) delivered() []byte {
	attempts := w.destinations.take()
	slices.SortFunc(attempts, func(a, b string) int { return strings.Compare(w.names.without(a), w.names.without(b)) })
	var lines []string
	for _, attempt := range attempts {
		lines = append(lines, string(w.names.remove([]byte(attempt)))+"\n")
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, ""))
}

// send sends a request and lets what it starts happen.
func (w *world) send(text []byte) *httptest.ResponseRecorder {
	w.Helper()
	r := readRequest(w.T, text)
	if r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", "Bearer full")
	}
	defer synctest.Wait()
	return do(w.handler, r)
}

// wait lets virtual time go by, and what is due happen.
func (w *world) wait(text string) {
	w.Helper()
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		w.Fatal(err)
	}
	time.Sleep(d)
	synctest.Wait()
}

// names replaces what is random, or means nothing to a reader, by names.
type names struct {
	byValue, byName map[string]string
	count           map[string]int
}

func newNames() names {
	return names{byValue: map[string]string{}, byName: map[string]string{}, count: map[string]int{}}
}

// named are the texts that get names.
var named = []struct {
	kind    string
	pattern *regexp.Regexp
}{
	{"message", regexp.MustCompile(`msg_[1-9A-Za-z]{22}`)},
	{"run", regexp.MustCompile(`wfr_[0-9a-f]{24}`)},
	{"schedule", regexp.MustCompile(`scd_[0-9a-f]{24}`)},
	{"action", regexp.MustCompile(`act_[0-9]{13}[0-9a-f]{12}`)},
	{"letter", regexp.MustCompile(`\b9466\d{8}-\d+\b`)},
	{"cursor", regexp.MustCompile(`\bp7[0-9a-z]{11}(-p7[0-9a-z]{11})?\b`)},
}

func (n names) remove(text []byte) []byte {
	for _, kind := range named {
		text = kind.pattern.ReplaceAllFunc(text, func(value []byte) []byte {
			name, known := n.byValue[string(value)]
			if !known {
				n.count[kind.kind]++
				name = fmt.Sprintf("{%s%d}", kind.kind, n.count[kind.kind])
				n.byValue[string(value)], n.byName[name] = name, string(value)
			}
			return []byte(name)
		})
	}
	return text
}

// without returns a text with what has names replaced by them, and without what
// could get one.
func (n names) without(text string) string {
	for _, kind := range named {
		text = kind.pattern.ReplaceAllStringFunc(text, func(value string) string { return n.byValue[value] })
	}
	return text
}

func (n names) insert(text []byte) []byte {
	for name, value := range n.byName {
		text = bytes.ReplaceAll(text, []byte(name), []byte(value))
	}
	return text
}
