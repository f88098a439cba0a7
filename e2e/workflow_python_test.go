package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPythonWorkflows has an endpoint that publishes and answers what one made
// with the Python SDK does: it repeats all settings with every step, says null
// for what it has not, reads the steps it is sent by the keys it wrote, and takes
// no delivery that is empty (contract, workflows 2.2, 2.3, 3.4, 4 and 5.2).
func TestPythonWorkflows(t *testing.T) {
	_, c := startServe(t, t.TempDir(), append([]string{"--log-level", "error"}, largePayloads...)...)
	t.Run("steps, a sleep and a call", func(t *testing.T) { testPythonSteps(t, c) })
	t.Run("a run that a message starts", func(t *testing.T) { testPythonFirstInvocation(t, c) })
	t.Run("a large payload", func(t *testing.T) { testPythonLargePayload(t, c) })
	t.Run("a step that fails", func(t *testing.T) { testPythonFailure(t, c) })
}

func testPythonSteps(t *testing.T, c *client) {
	third := newPythonEndpoint(t, c)
	endpoint := newPythonEndpoint(t, c,
		pythonRun("greet", `"hi"`),
		pythonSleep("rest", 1),
		pythonCall("ask", third.url, `{"question": 1}`),
	)
	endpoint.trigger(t, "wfr_python_steps", `{"order": 7}`)
	run := c.waitForRun(t, "wfr_python_steps")
	if run.State != "RUN_SUCCESS" || run.Response != "" {
		t.Fatalf("the run is %+v, want a success without a response", run)
	}

	// One call for each step and one more that brings the answer; the last one
	// finishes.
	deliveries := endpoint.waitForDeliveries(t, 5)
	for i, d := range deliveries {
		if got := d.header.Get("X-Tenant"); got != "acme" {
			t.Errorf("delivery %d has the tenant %q, want acme", i, got)
		}
	}
	wantEntries := []string{`{"order": 7}`, endpoint.published[0], endpoint.published[1], endpoint.published[2]}
	if got := deliveries[4].entries(t); !slices.Equal(got, wantEntries) {
		t.Errorf("the last delivery has the entries\n%q\nwant\n%q", got, wantEntries)
	}

	asked := third.waitForDeliveries(t, 1)[0]
	if asked.body != `{"question": 1}` || asked.method != http.MethodPut || asked.header.Get("X-Key") != "k" {
		t.Errorf("the third party got %+v", asked)
	}
	for _, name := range []string{"X-Tenant", pythonVersionHeader} {
		if got := asked.header.Get(name); got != "" {
			t.Errorf("the third party got %s: %s, want none", name, got)
		}
	}
}

func testPythonFirstInvocation(t *testing.T, c *client) {
	endpoint := newPythonEndpoint(t, c, pythonRun("greet", `"hi"`))
	header := map[string]string{"Content-Type": "application/json", "Upstash-Forward-X-Tenant": "acme"}
	if _, err := c.publish(t.Context(), endpoint.url, header, `{"order": 7}`); err != nil {
		t.Fatalf("publish: %v", err)
	}
	deliveries := endpoint.waitForDeliveries(t, 3)
	run := c.waitForRun(t, deliveries[2].header.Get("Upstash-Workflow-RunId"))
	if run.State != "RUN_SUCCESS" {
		t.Errorf("the run is %+v, want a success", run)
	}
	if got, want := deliveries[2].entries(t), []string{`{"order": 7}`, endpoint.published[0]}; !slices.Equal(got, want) {
		t.Errorf("the last delivery has the entries %q, want %q", got, want)
	}
}

func testPythonLargePayload(t *testing.T, c *client) {
	endpoint := newPythonEndpoint(t, c, pythonRun("greet", `"hi"`))
	payload := `"` + strings.Repeat("x", 3<<20) + `"`
	endpoint.trigger(t, "wfr_python_large", payload)
	if run := c.waitForRun(t, "wfr_python_large"); run.State != "RUN_SUCCESS" {
		t.Fatalf("the run is %+v, want a success", run)
	}
	for i, d := range endpoint.waitForDeliveries(t, 2) {
		if got := d.entries(t); got[0] != payload {
			t.Errorf("delivery %d begins with %d bytes, want the payload of %d", i, len(got[0]), len(payload))
		}
	}
}

func testPythonFailure(t *testing.T, c *client) {
	endpoint := newPythonEndpoint(t, c, pythonRun("greet", `"hi"`), pythonFailure)
	endpoint.trigger(t, "wfr_python_failure", `{"order": 7}`)
	run := c.waitForRun(t, "wfr_python_failure")
	if run.State != "RUN_FAILED" {
		t.Fatalf("the run is %+v, want a failure", run)
	}
	// One step, two attempts of the other, the failure callback.
	deliveries := endpoint.waitForDeliveries(t, 4)
	var story struct {
		Status          int
		Body            []byte
		URL             string
		SourceBody      []byte
		WorkflowRunID   string
		DLQID           string
		Retried         int
		MaxRetries      int
		SourceMessageID string
	}
	callback := deliveries[3]
	if err := json.Unmarshal([]byte(callback.body), &story); err != nil {
		t.Fatalf("decode the failure callback: %v\n%s", err, callback.body)
	}
	var failure struct{ Message string }
	if err := json.Unmarshal(story.Body, &failure); err != nil || failure.Message != "broken" {
		t.Errorf("the failure callback tells of %q (%v), want of the message broken", story.Body, err)
	}
	if story.Status != http.StatusInternalServerError || story.URL != endpoint.url || string(story.SourceBody) != `{"order": 7}` ||
		story.WorkflowRunID != "wfr_python_failure" || story.DLQID == "" || story.Retried != 1 || story.MaxRetries != 1 ||
		story.SourceMessageID != deliveries[2].header.Get("Upstash-Message-Id") {
		t.Errorf("the failure callback is %+v", story)
	}
	for name, want := range map[string]string{
		"X-Tenant":                          "acme",
		"Upstash-Workflow-Is-Failure":       "true",
		"Upstash-Workflow-Failure-Callback": "true",
		"Upstash-Workflow-Runid":            "wfr_python_failure",
		"Upstash-Workflow-Calltype":         "failureCall",
		"Upstash-Workflow-Url":              endpoint.url,
	} {
		if got := callback.header.Get(name); got != want {
			t.Errorf("the failure callback has %s: %q, want %q", name, got, want)
		}
	}
}

// runLog is a run in the log, as much of it as the tests compare.
type runLog struct {
	State    string `json:"workflowState"`
	Response string `json:"workflowRunResponse"`
}

// waitForRun waits until a run has ended and returns its log.
func (c *client) waitForRun(t *testing.T, id string) runLog {
	t.Helper()
	const pause = 20 * time.Millisecond
	query := url.Values{"workflowRunId": {id}}.Encode()
	var page struct{ Runs []runLog }
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pause) {
		mustCall(t, c, http.MethodGet, "/v2/workflows/logs?"+query, nil, "", &page)
		if len(page.Runs) > 0 && page.Runs[0].State != "RUN_STARTED" {
			return page.Runs[0]
		}
	}
	t.Fatalf("%s has not ended: %+v", id, page.Runs)
	return runLog{}
}
