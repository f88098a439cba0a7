package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"
)

// pythonVersionHeader is what tells the delivery of a step from a request that is
// to start a run.
const pythonVersionHeader = "Upstash-Workflow-Sdk-Version"

// pythonEndpoint is an endpoint whose workflow is a list of steps. Without steps
// it is no workflow but a third party.
type pythonEndpoint struct {
	url   string
	c     *client
	steps []pythonStep

	mu         sync.Mutex
	deliveries []pythonDelivery
	published  []string // steps with their results, in the order in which they were published
}

// pythonDelivery is a request that the endpoint has had.
type pythonDelivery struct {
	method string
	header http.Header
	body   string
}

// pythonStep makes the message by which a step is published, or fails.
type pythonStep func(e *pythonEndpoint, runID string, stepID int) (batchItem, error)

// newPythonEndpoint starts an endpoint that ends with the test.
func newPythonEndpoint(t *testing.T, c *client, steps ...pythonStep) *pythonEndpoint {
	t.Helper()
	e := &pythonEndpoint{c: c, steps: steps}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	e.url = server.URL + "/workflow"
	return e
}

// trigger starts a run as the Python client does.
func (e *pythonEndpoint) trigger(t *testing.T, runID, payload string) {
	t.Helper()
	if _, err := e.c.publish(t.Context(), e.url, e.headers(runID, "true"), payload); err != nil {
		t.Fatalf("trigger: %v", err)
	}
}

// ServeHTTP answers a delivery. What it publishes is published before it answers.
func (e *pythonEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		e.record(pythonDelivery{r.Method, r.Header, string(body)})
		err = e.handle(r, string(body))
	}
	if err != nil { // unlike other SDKs, this one does not tell its version then
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprintf(w, `{"error": "WorkflowError", "message": %q}`, err.Error())
		return
	}
	w.Header().Set(pythonVersionHeader, "1")
	_, _ = io.WriteString(w, `{"workflowRunId": "wfr"}`)
}

func (e *pythonEndpoint) handle(r *http.Request, body string) error {
	runID := r.Header.Get("Upstash-Workflow-RunId")
	switch {
	case len(e.steps) == 0 || r.Header.Get("Upstash-Workflow-Is-Failure") == "true":
		return nil
	case r.Header.Get("Upstash-Workflow-Callback") == "true":
		return e.takeAnswer(r, runID, body)
	case r.Header.Get(pythonVersionHeader) == "":
		_, err := e.c.publish(r.Context(), e.url, e.headers("wfr_python_first", "true"), body)
		return err
	default:
		return e.execute(r, runID, body)
	}
}

// execute publishes the first step that is not in the list of a delivery, or
// finishes the run.
func (e *pythonEndpoint) execute(r *http.Request, runID, body string) error {
	var list []struct{}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		return fmt.Errorf("the delivery %q: %w", body, err)
	}
	if len(list) > len(e.steps) {
		return e.c.call(r.Context(), http.MethodDelete, "/v2/workflows/runs/"+runID+"?cancel=false", nil, "", nil)
	}
	item, err := e.steps[len(list)-1](e, runID, len(list))
	if err != nil {
		return err
	}
	batch, err := json.Marshal([]batchItem{item})
	if err != nil {
		return err
	}
	if item.Destination == e.url {
		e.remember(item.Body)
	}
	var receipts []receipt
	return e.c.call(r.Context(), http.MethodPost, "/v2/batch", nil, string(batch), &receipts)
}

// takeAnswer publishes the result of a call that the server has made.
func (e *pythonEndpoint) takeAnswer(r *http.Request, runID, body string) error {
	var answer struct {
		Status int
		Body   []byte
		Header map[string][]string
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return err
	}
	out, err := json.Marshal(map[string]any{"status": answer.Status, "body": string(answer.Body), "header": answer.Header})
	if err != nil {
		return err
	}
	result := fmt.Sprintf(`{"stepId": %s, "stepName": %q, "stepType": "Call", "out": %q, "concurrent": 1}`,
		r.Header.Get("Upstash-Workflow-StepId"), r.Header.Get("Upstash-Workflow-StepName"), out)
	e.remember(result)
	_, err = e.c.publish(r.Context(), e.url, e.headers(runID, "false"), result)
	return err
}

func (e *pythonEndpoint) record(d pythonDelivery) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deliveries = append(e.deliveries, d)
}

func (e *pythonEndpoint) remember(step string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.published = append(e.published, step)
}

// waitForDeliveries returns the deliveries as soon as there are as many.
func (e *pythonEndpoint) waitForDeliveries(t *testing.T, count int) []pythonDelivery {
	t.Helper()
	const pause = 20 * time.Millisecond
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pause) {
		if taken := e.taken(); len(taken) >= count {
			if len(taken) > count {
				t.Fatalf("there were %d deliveries, want %d: %+v", len(taken), count, taken)
			}
			return taken
		}
	}
	t.Fatalf("there were %d deliveries, want %d", len(e.taken()), count)
	return nil
}

func (e *pythonEndpoint) taken() []pythonDelivery {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.deliveries[:len(e.deliveries):len(e.deliveries)]
}

// entries returns the bodies of the list that a delivery has.
func (d pythonDelivery) entries(t *testing.T) []string {
	t.Helper()
	var list []struct{ Body []byte }
	if err := json.Unmarshal([]byte(d.body), &list); err != nil {
		t.Fatalf("decode the delivery %q: %v", d.body, err)
	}
	var bodies []string
	for _, entry := range list {
		bodies = append(bodies, string(entry.Body))
	}
	return bodies
}

// pythonRun is a step with a result, which is given as JSON.
func pythonRun(name, result string) pythonStep {
	return func(e *pythonEndpoint, runID string, stepID int) (batchItem, error) {
		body := pythonBody(stepID, name, "Run", result, "null")
		return batchItem{Destination: e.url, Headers: e.headers(runID, "false"), Body: body}, nil
	}
}

// pythonSleep is a step that lasts some seconds.
func pythonSleep(name string, seconds int) pythonStep {
	return func(e *pythonEndpoint, runID string, stepID int) (batchItem, error) {
		headers := e.headers(runID, "false")
		headers["Upstash-Delay"] = fmt.Sprintf("%ds", seconds)
		body := pythonBody(stepID, name, "SleepFor", "null", strconv.Itoa(seconds))
		return batchItem{Destination: e.url, Headers: headers, Body: body}, nil
	}
}

// pythonCall is a step that has a third party called.
func pythonCall(name, url, body string) pythonStep {
	return func(e *pythonEndpoint, runID string, stepID int) (batchItem, error) {
		headers := map[string]string{
			"Upstash-Method":               http.MethodPut,
			"Content-Type":                 "application/json",
			"Upstash-Workflow-Init":        "false",
			"Upstash-Workflow-RunId":       runID,
			"Upstash-Workflow-Url":         e.url,
			"Upstash-Workflow-CallType":    "toCallback",
			"Upstash-Feature-Set":          "WF_NoDelete,InitialBody",
			"Upstash-Retries":              "0",
			"Upstash-Forward-X-Key":        "k",
			"Upstash-Callback":             e.url,
			"Upstash-Callback-Feature-Set": "LazyFetch,InitialBody",
			"Upstash-Callback-Retries":     "1",

			"Upstash-Callback-Workflow-RunId":    runID,
			"Upstash-Callback-Workflow-CallType": "fromCallback",
			"Upstash-Callback-Workflow-Init":     "false",
			"Upstash-Callback-Workflow-Url":      e.url,
			"Upstash-Callback-Forward-X-Tenant":  "acme",

			"Upstash-Callback-Forward-Upstash-Workflow-Callback":    "true",
			"Upstash-Callback-Forward-Upstash-Workflow-StepId":      strconv.Itoa(stepID),
			"Upstash-Callback-Forward-Upstash-Workflow-StepName":    name,
			"Upstash-Callback-Forward-Upstash-Workflow-StepType":    "Call",
			"Upstash-Callback-Forward-Upstash-Workflow-Concurrent":  "1",
			"Upstash-Callback-Forward-Upstash-Workflow-ContentType": "application/json",
		}
		// The settings of failure callbacks are there, the URLs they belong to are not.
		for _, prefix := range []string{"Upstash-Failure-Callback-", "Upstash-Callback-Failure-Callback-"} {
			maps.Copy(headers, e.failureHeaders(prefix, runID))
		}
		return batchItem{Destination: url, Headers: headers, Body: body}, nil
	}
}

// pythonFailure is a step that raises an exception.
func pythonFailure(*pythonEndpoint, string, int) (batchItem, error) {
	return batchItem{}, fmt.Errorf("broken")
}

// pythonBody returns a step as the Python SDK encodes it. The result is JSON.
func pythonBody(stepID int, name, kind, result, sleepFor string) string {
	return fmt.Sprintf(`{"method": "POST", "stepId": %d, "stepName": %q, "stepType": %q, "out": %q, "sleepFor": %s, `+
		`"sleepUntil": null, "concurrent": 1, "targetStep": null, "callUrl": null, "callMethod": null, "callBody": null, "callHeaders": null}`,
		stepID, name, kind, result, sleepFor)
}

// headers returns what the Python SDK sends with everything that goes to the
// endpoint.
func (e *pythonEndpoint) headers(runID, init string) map[string]string {
	headers := e.failureHeaders("Upstash-Failure-Callback-", runID)
	maps.Copy(headers, map[string]string{
		"Content-Type":             "application/json",
		"Upstash-Workflow-Init":    init,
		"Upstash-Workflow-RunId":   runID,
		"Upstash-Workflow-Url":     e.url,
		"Upstash-Feature-Set":      "LazyFetch,InitialBody,WF_DetectTrigger",
		"Upstash-Retries":          "1",
		"Upstash-Retry-Delay":      "10",
		"Upstash-Failure-Callback": e.url,
		"Upstash-Forward-X-Tenant": "acme",

		"Upstash-Forward-" + pythonVersionHeader: "1",
	})
	return headers
}

func (e *pythonEndpoint) failureHeaders(prefix, runID string) map[string]string {
	headers := make(map[string]string)
	for name, value := range map[string]string{
		"Forward-Upstash-Workflow-Is-Failure":       "true",
		"Forward-Upstash-Workflow-Failure-Callback": "true",
		"Forward-X-Tenant":                          "acme",
		"Feature-Set":                               "LazyFetch,InitialBody",
		"Workflow-Runid":                            runID,
		"Workflow-Init":                             "false",
		"Workflow-Url":                              e.url,
		"Workflow-Calltype":                         "failureCall",
		"Retries":                                   "1",
	} {
		headers[prefix+name] = value
	}
	return headers
}
