package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// The endpoints of the tests do what those of an SDK do: they replay the list that
// they are delivered, do the first step that is missing, publish what came of it, and
// then answer. They know nothing but the request, and report what an SDK would trip
// over.

// latency is the time from a request to what its endpoint does, and from there to the
// answer.
const latency = time.Millisecond

// sdk is how an SDK introduces itself.
type sdk struct {
	features posthaste.Features
	fetching bool   // it fetches what is not delivered
	queue    string // through which everything goes; "": none

	repeats func(*posthaste.Settings) // what it says of its own with every delivery it asks for; nil: nothing
}

var (
	sdkTypeScript = sdk{
		features: posthaste.FeatureLazyFetch | posthaste.FeatureInitialBody | posthaste.FeatureDetectTrigger | posthaste.FeatureTriggerOnConfig,
		fetching: true,
	}
	sdkPython = sdk{features: posthaste.FeatureLazyFetch | posthaste.FeatureInitialBody | posthaste.FeatureDetectTrigger}
)

// base are the headers that an SDK forwards with everything.
func base() http.Header {
	return http.Header{"Upstash-Workflow-Sdk-Version": {"1"}, "Content-Type": {"application/json"}}
}

// trigger is what a client sends to start a run.
func (s sdk) trigger(url, id, payload string, edits ...func(*workflow.Item)) workflow.Item {
	item := workflow.Item{
		Publication: engine.Publication{
			Destination: url,
			Queue:       s.queue,
			Body:        []byte(payload),
			CallerIP:    "192.0.2.1",
			Settings:    posthaste.Settings{Header: base(), FailureCallback: failureCallback(url)},
		},
		RunID: id, WorkflowURL: url, Init: true, Features: s.features, FetchingSDK: s.fetching,
	}
	for _, edit := range edits {
		edit(&item)
	}
	return item
}

func failureCallback(url string) *posthaste.Callback {
	return &posthaste.Callback{
		URL: url,
		Settings: posthaste.Settings{Header: http.Header{
			"Upstash-Workflow-Is-Failure": {"true"}, "Upstash-Workflow-Failure-Callback": {"true"},
		}},
		Given: http.Header{"Upstash-Failure-Callback-Feature-Set": {"LazyFetch,InitialBody"}},
	}
}

// fault is what goes wrong on a visit.
type fault int

const (
	noFault    fault = iota
	refuse           // the endpoint is broken
	loseAnswer       // it does all it should, and its answer is lost
	twice            // it gets the request twice, one right after the other
)

// visit is one request that the server made.
type visit struct {
	at      time.Duration // since the start
	path    string
	what    string
	retried int
	message *posthaste.Message
	list    []listed // what the SDK replays
}

// listed is an entry of a list as an SDK reads it.
type listed struct {
	MessageID string `json:"messageId"`
	Body      []byte `json:"body"`
	CallType  string `json:"callType"`
}

func (v visit) String() string {
	text := fmt.Sprintf("%d %s %s", v.at.Milliseconds(), v.path, v.what)
	if v.retried > 0 {
		text += " again"
	}
	return text
}

// Attempt implements engine.Dispatcher.
func (w *world) Attempt(ctx context.Context, m *posthaste.Message, retried int) posthaste.Outcome {
	v := w.newVisit(ctx, m, retried)
	time.Sleep(latency)
	defer w.answerLate(v)
	failing := noFault
	if w.setup.fault != nil {
		failing = w.setup.fault(v)
	}
	switch failing {
	case refuse:
		return outcome(http.StatusInternalServerError)
	case loseAnswer:
		w.answer(ctx, v)
		return outcome(0)
	case twice:
		w.answer(ctx, v)
	}
	return w.answer(ctx, v)
}

func (w *world) answerLate(v visit) {
	late := latency
	if w.takes != nil {
		late += w.takes(v)
	}
	time.Sleep(late)
}

// newVisit understands a request and notes it.
func (w *world) newVisit(ctx context.Context, m *posthaste.Message, retried int) visit {
	v := visit{at: time.Since(w.start), path: path(m.URL), retried: retried, message: m}
	h := m.Header
	switch {
	case h.Get("Upstash-Workflow-Is-Failure") == "true":
		v.what = "failure"
	case h.Get("Upstash-Workflow-Callback") == "true":
		v.what = "answer " + posthaste.DecodeHeaderText(h.Get("Upstash-Workflow-Stepname"))
	case h.Get("Upstash-Workflow-Unknown-Sdk") == "true":
		v.what = "unknown"
	case h.Get("Upstash-Workflow-Sdk-Version") == "":
		v.what = "call"
	default:
		v.list = w.readList(ctx, m)
		v.what = "start"
		if n := len(v.list); n > 1 {
			step, _ := parseStep(v.list[n-1].Body)
			v.what = step.String()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.visits = append(w.visits, v)
	w.checkBody(m)
	return v
}

// answer does what an endpoint does with a request.
func (w *world) answer(ctx context.Context, v visit) posthaste.Outcome {
	if w.override != nil && v.what != "failure" {
		if o := w.override(v); o != nil {
			return *o
		}
	}
	switch {
	case v.what == "failure":
		return w.failureFunction(v)
	case v.what == "call":
		return w.thirdParty(v)
	}
	e := &execution{world: w, ctx: ctx, visit: v, url: v.message.Header.Get("Upstash-Workflow-Url")}
	e.run.ID = v.message.Header.Get("Upstash-Workflow-Runid")
	ms, _ := strconv.ParseInt(v.message.Header.Get("Upstash-Workflow-Createdat"), 10, 64)
	e.run.CreatedAt = time.UnixMilli(ms)
	switch {
	case strings.HasPrefix(v.what, "answer "):
		return answered(e.publishAnswer())
	case v.what == "unknown":
		return answered(e.introduce())
	default:
		w.checkDelivery(v)
		return answered(e.replay())
	}
}

// behaviour is how something was told to behave, or else the status 200.
func (w *world) behaviour(of string) posthaste.Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	if behave := w.behave[of]; behave != nil {
		return *behave()
	}
	return outcome(http.StatusOK)
}

func (w *world) thirdParty(v visit) posthaste.Outcome { return w.behaviour(v.path) }

// failureFunction keeps what it is told.
func (w *world) failureFunction(v visit) posthaste.Outcome {
	var report map[string]any
	if err := json.Unmarshal(v.message.Body, &report); err != nil {
		w.t.Errorf("%s is no JSON: %v", v, err)
	}
	w.mu.Lock()
	id, _ := report["workflowRunId"].(string)
	w.told[id] = append(w.told[id], report)
	w.mu.Unlock()
	return w.behaviour("failure " + v.path)
}

// thrown is an error of a flow's code, and how its endpoint answers then.
type thrown struct{ posthaste.Outcome }

func (t thrown) Error() string { return t.Outcome.Error }

// answered is how an endpoint answers (contract, workflows 3.5 and 3.6).
func answered(err error) posthaste.Outcome {
	var t thrown
	switch {
	case errors.As(err, &t):
		return t.Outcome
	case posthaste.ErrorCode(err) == posthaste.CodeLimit, posthaste.ErrorCode(err) == posthaste.CodeInvalid:
		return outcome(489)
	case err != nil && posthaste.ErrorCode(err) != posthaste.CodeEnded && !errors.Is(err, store.ErrNotFound):
		return outcome(http.StatusInternalServerError)
	}
	o := outcome(http.StatusOK)
	o.Response.Header.Set("Upstash-Workflow-Sdk-Version", "1")
	o.Response.Header.Set("Upstash-Workflow-Sdk", "v1.2.3")
	return o
}

// readList reads a delivered list, or fetches it as SDKs do if none was delivered
// (contract, workflows 3.4). It is empty if the run has ended.
func (w *world) readList(ctx context.Context, m *posthaste.Message) []listed {
	if len(m.Body) > 0 {
		var list []listed
		if err := json.Unmarshal(m.Body, &list); err != nil || len(list) == 0 {
			w.t.Errorf("message %s delivers no list: %v", m.ID, err)
		}
		return list
	}
	entries, err := w.Entries(ctx, user, workflow.RunID{ID: m.Header.Get("Upstash-Workflow-Runid")}, func(int) error { return nil })
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		w.t.Errorf("fetch the list of message %s: %v", m.ID, err)
	}
	var list []listed
	for _, entry := range entries {
		if entry.CallType == posthaste.CallStep {
			list = append(list, listed{entry.MessageID.String(), entry.Body, string(entry.CallType)})
		}
	}
	delivered := slices.IndexFunc(list, func(l listed) bool { return l.MessageID == m.ID.String() })
	if delivered < 0 {
		w.t.Errorf("message %s is not in the list of its run", m.ID)
	}
	return list[:delivered+1]
}

// execution is a flow on its way.
type execution struct {
	world *world
	ctx   context.Context
	visit visit
	run   workflow.RunID
	url   string
}

func parseStep(body []byte) (w written, ok bool) {
	err := json.Unmarshal(body, &w)
	return w, err == nil && w.Type != ""
}

// replay goes through the flow and does the first thing that is missing (contract,
// workflows 4.3).
func (e *execution) replay() error {
	if len(e.visit.list) == 0 {
		return nil // it has ended, there was no list to fetch
	}
	var values []string
	next := 1
	for _, g := range e.world.setup.flows[path(e.url)] {
		found, err := e.group(next, g)
		if err != nil || found == nil {
			return err
		}
		values = append(values, found...)
		next += len(g)
	}
	result := strings.Join(values, " ")
	return e.world.Finish(e.ctx, user, e.run, &result)
}

// group returns what the steps of a group returned. If they have not all ended it does
// what is to be done next, and returns nil.
func (e *execution) group(first int, g group) ([]string, error) {
	switch g[0].kind {
	case kindCancel:
		return nil, e.world.Cancel(e.ctx, user, e.run)
	case kindThrow:
		return nil, thrown{outcome(g[0].status)}
	}
	entries := e.from(first)
	if len(entries) == 0 {
		return nil, e.begin(first, g)
	}
	last := entries[len(entries)-1]
	switch {
	case len(g) == 1, len(entries) >= 2*len(g):
		return e.results(entries, first, len(g))
	case last.isPlan():
		return nil, e.do(g[last.Target-first], last.Target, len(g))
	default:
		return nil, nil
	}
}

// from returns the steps that are in the list, from the one with an id on.
func (e *execution) from(first int) []written {
	var found []written
	for _, entry := range e.visit.list[1:] {
		if step, _ := parseStep(entry.Body); step.about() >= first {
			found = append(found, step)
		}
	}
	return found
}

func (e *execution) results(entries []written, first, n int) ([]string, error) {
	values := make([]string, n)
	for i := range values {
		at := slices.IndexFunc(entries, func(w written) bool { return w.ID == first+i })
		if at < 0 {
			e.world.t.Errorf("%s: step %d has no result where all have ended", e.visit, first+i)
			return nil, nil
		}
		var err error
		if values[i], err = entries[at].returned(); err != nil {
			e.world.t.Errorf("%s: %v", e.visit, err)
		}
	}
	return values, nil
}

// begin does a step that is alone, and plans those that are not.
func (e *execution) begin(first int, g group) error {
	if len(g) == 1 {
		return e.do(g[0], first, 1)
	}
	items := make([]workflow.Item, len(g))
	for i, s := range g {
		items[i] = e.item(s.plan(first+i, len(g)))
		e.delay(&items[i], s)
	}
	return e.submit(items...)
}

// delay lets a delivery wait as long as a step sleeps.
func (e *execution) delay(item *workflow.Item, s step) {
	switch s.kind {
	case "SleepFor":
		item.Delay = s.duration
	case "SleepUntil":
		item.NotBefore = e.world.start.Add(s.duration)
	}
}

// do does a step. That of a group has been delayed by its plan.
func (e *execution) do(s step, id, concurrent int) error {
	e.world.mu.Lock()
	e.world.done[e.run.ID+" "+s.name]++
	e.world.mu.Unlock()
	if o := e.world.behaviour(path(e.url) + " " + s.name); o.Class != posthaste.OutcomeDelivered {
		return thrown{o}
	}
	switch s.kind {
	case "Call":
		return e.submit(e.call(s, id, concurrent))
	case "Wait":
		return e.wait(s, id, concurrent)
	case "Invoke":
		return e.submit(e.invoke(s, id, concurrent))
	case "Notify":
		s.value = "told"
		_, err := e.world.NotifyRun(e.ctx, user, s.run, s.event, []byte(s.name))
		if errors.Is(err, store.ErrNotFound) {
			s.value = "nobody"
		} else if err != nil {
			return err
		}
	}
	item := e.item(s.result(id, concurrent))
	if concurrent == 1 {
		e.delay(&item, s)
	}
	return e.submit(item)
}

func (e *execution) submit(items ...workflow.Item) error {
	_, err := e.world.Submit(e.ctx, user, items)
	return err
}

// delivery is what a delivery to the workflow is asked for with.
func (s sdk) delivery() posthaste.Settings {
	settings := posthaste.Settings{Header: base()}
	if s.repeats != nil {
		s.repeats(&settings)
	}
	return settings
}

// answerFeatures are those of the answer to a call.
func (s sdk) answerFeatures() string {
	if s.features.Has(posthaste.FeatureTriggerOnConfig) {
		return "LazyFetch,InitialBody,WF_DetectTrigger,WF_TriggerOnConfig"
	}
	return "LazyFetch,InitialBody"
}

// item is a step as it is published.
func (e *execution) item(step written) workflow.Item {
	return workflow.Item{
		Publication: engine.Publication{
			Destination: e.url, Queue: e.sdk().queue, Body: marshal(step), CallerIP: "192.0.2.2",
			Settings: e.sdk().delivery(),
		},
		RunID: e.run.ID, WorkflowURL: e.url, Features: e.sdk().features, FetchingSDK: e.sdk().fetching,
	}
}

func (e *execution) sdk() sdk { return e.world.setup.sdk }

// call is a request that the server is to make (contract, workflows 4.5).
func (e *execution) call(s step, id, concurrent int) workflow.Item {
	item := e.item(s.written(id, concurrent))
	item.Destination, item.Body, item.CallType = s.url, []byte("question"), posthaste.CallRequest
	item.Features = posthaste.FeatureInitialBody
	if s.keep {
		item.Features |= posthaste.FeatureNoDelete
	}
	answer := e.sdk().delivery()
	maps.Copy(answer.Header, http.Header{
		"Upstash-Workflow-Callback":    {"true"},
		"Upstash-Workflow-Stepid":      {strconv.Itoa(id)},
		"Upstash-Workflow-Stepname":    {posthaste.EncodeHeaderText(s.name)},
		"Upstash-Workflow-Steptype":    {"Call"},
		"Upstash-Workflow-Concurrent":  {strconv.Itoa(concurrent)},
		"Upstash-Workflow-Contenttype": {"text/plain"},
	})
	item.Settings = posthaste.Settings{
		Method: http.MethodPatch, Retries: &s.retries, RetryDelay: "1000",
		Header: http.Header{"Content-Type": {"text/plain"}, "X-Question": {"1"}},
		Callback: &posthaste.Callback{
			URL:      e.url,
			Settings: answer,
			Given:    http.Header{"Upstash-Callback-Feature-Set": {e.sdk().answerFeatures()}},
		},
	}
	return item
}

// report is what an SDK reads of the answer to a call.
type report struct {
	Status     int         `json:"status"`
	Header     http.Header `json:"header"`
	Body       *[]byte     `json:"body"`
	Retried    *int        `json:"retried"`
	MaxRetries *int        `json:"maxRetries"`
}

// publishAnswer makes a step of the answer to a call.
func (e *execution) publishAnswer() error {
	body := e.visit.message.Body
	var r report
	if err := json.Unmarshal(body, &r); err != nil || r.Header == nil || r.Body == nil || r.Retried == nil || r.MaxRetries == nil {
		e.world.t.Errorf("%s: the answer is incomplete (%v): %s", e.visit, err, body)
		return nil
	}
	if (r.Status < 200 || r.Status > 299) && *r.MaxRetries > 0 && *r.Retried != *r.MaxRetries {
		return nil // all SDKs wait for the report of the next attempt
	}
	h := posthaste.HeaderInJSON(e.visit.message.Header) // as fetch reads it
	id, _ := strconv.Atoi(h.Get("Upstash-Workflow-Stepid"))
	concurrent, _ := strconv.Atoi(h.Get("Upstash-Workflow-Concurrent"))
	out := string(marshal(calledBack{r.Status, string(*r.Body)}))
	return e.submit(e.item(written{
		ID: id, Name: h.Get("Upstash-Workflow-Stepname"), Type: "Call", Concurrent: concurrent, Out: &out,
	}))
}

// wait asks for an event (contract, workflows 4.6).
func (e *execution) wait(s step, id, concurrent int) error {
	_, err := e.world.Wait(e.ctx, user, workflow.WaitRequest{
		Run: e.run, EventID: s.event, Step: marshal(s.written(id, concurrent)),
		Features: e.sdk().features, FetchingSDK: e.sdk().fetching,
		Delivery: e.sdk().delivery(),
		Timeout:  s.duration, TimeoutText: s.duration.String(), TimeoutURL: e.url,
		TimeoutDelivery: e.sdk().delivery(),
		Shown:           posthaste.WaiterShown{URL: e.url},
	})
	return err
}

// invoke starts another run and waits for it (contract, workflows 4.9).
func (e *execution) invoke(s step, id, concurrent int) workflow.Item {
	depth, _ := strconv.Atoi(e.visit.message.Header.Get("Upstash-Workflow-Invoke-Count"))
	childID := s.run
	if childID == "" {
		childID = e.run.ID + "." + s.name
	}
	item := e.sdk().trigger(s.url, childID, "from "+e.run.ID)
	item.Header.Set("Upstash-Workflow-Invoke-Count", strconv.Itoa(depth+1))
	item.InvokeDepth = depth + 1
	item.RetryDelay = "1000"
	item.Invocation = &workflow.Invocation{
		Invoker: e.run, Step: marshal(s.written(id, concurrent)), Features: e.sdk().features,
		Delivery: posthaste.Settings{Header: base()},
	}
	return item
}

// introduce triggers a run once more, as an SDK that is not known does (contract,
// workflows 2.4).
func (e *execution) introduce() error {
	var list []listed
	if err := json.Unmarshal(e.visit.message.Body, &list); err != nil || len(list) != 1 {
		e.world.t.Errorf("%s delivers %s, want a list of the payload", e.visit, e.visit.message.Body)
		return nil
	}
	item := e.sdk().trigger(e.url, e.run.ID, string(list[0].Body), func(item *workflow.Item) {
		item.BySDK, item.FailureCallback = true, nil
		for name, values := range e.visit.message.Header {
			if !strings.HasPrefix(name, "Upstash-Workflow-") {
				item.Header[name] = values
			}
		}
	})
	return e.submit(item)
}

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // only texts and numbers are written here
	}
	return text
}
