package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/workflow"
)

const workflowURL = "https://a.example/workflow"

// readRunItem reads an item from header lines.
func readRunItem(t *testing.T, lines string) (workflow.Item, error) {
	t.Helper()
	header := parseLines(lines)
	c, err := Collect(header, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Decoder{CheckHost: allowAll}.RunItem(workflowURL, c, Incoming{Header: header})
}

// TestRunItem checks how items are read (contract, workflows 2.1 and 2.2).
func TestRunItem(t *testing.T) {
	step := workflow.Item{ // of a run r, with nothing else said
		Publication: engine.Publication{
			Destination: workflowURL,
			Settings:    posthaste.Settings{Header: http.Header{"Content-Type": {"application/json"}}, Dialect: posthaste.DialectUpstash},
		},
		RunID: "r",
	}
	tests := []struct {
		name   string
		lines  string
		change func(item *workflow.Item)
	}{
		{"nothing else", "", func(*workflow.Item) {}},
		{"explicitly no start", "Upstash-Workflow-Init: FALSE", func(*workflow.Item) {}},
		{"the id twice", "upstash-workflow-RUNID: r", func(*workflow.Item) {}},
		{"start", "Upstash-Workflow-Init: true", func(i *workflow.Item) { i.Init = true }},
		{"start in the other family", "Service-Workflow-Init: true", func(i *workflow.Item) { i.Init, i.Dialect = true, posthaste.DialectBoth }},
		{"URL of the workflow", "Upstash-Workflow-Init: true\nUpstash-Workflow-Url: https://b.example",
			func(i *workflow.Item) { i.Init, i.WorkflowURL = true, "https://b.example" }},
		{"URL of the workflow with a step", "Upstash-Workflow-Url: anything", func(*workflow.Item) {}},
		{"time of creation (D 18)", "Upstash-Workflow-CreatedAt: 1700000000000",
			func(i *workflow.Item) { i.CreatedAt = time.UnixMilli(1_700_000_000_000) }},
		{"call type", "Upstash-Workflow-CallType: stepConfig", func(i *workflow.Item) { i.CallType = "stepConfig" }},
		{"features in several lines", "Upstash-Feature-Set: LazyFetch, WF_Future\nUpstash-Feature-Set: InitialBody",
			func(i *workflow.Item) { i.Features = posthaste.FeatureLazyFetch | posthaste.FeatureInitialBody }},
		{"unknown SDK (2.4)", "Upstash-Workflow-Unknown-Sdk: true", func(i *workflow.Item) { i.Features = posthaste.FeatureUnknownSDK }},
		{"known SDK", "Upstash-Workflow-Unknown-Sdk: false", func(*workflow.Item) {}},
		{"triggered by the SDK (2.4)", "upstash-workflow-trigger-by-sdk: true", func(i *workflow.Item) { i.BySDK = true }},
		{"versioned SDK (D 12)", "Upstash-Workflow-Sdk-Version: 1", func(i *workflow.Item) { i.FetchingSDK = true }},
		{"telemetry of an SDK (D 12)", "Upstash-Telemetry-Sdk: @upstash/qstash@2.8, @upstash/workflow@0.2.15",
			func(i *workflow.Item) { i.FetchingSDK = true }},
		{"telemetry of another SDK (D 12)", "Upstash-Telemetry-Sdk: upstash-workflow-py@0.1.0", func(*workflow.Item) {}},
		{"version that is forwarded (D 12)", "Upstash-Forward-Upstash-Workflow-Sdk-Version: 1", func(i *workflow.Item) {
			i.Header = http.Header{"Content-Type": {"application/json"}, "Upstash-Workflow-Sdk-Version": {"1"}}
		}},
		{"depth of a step", "Upstash-Forward-Upstash-Workflow-Invoke-Count: 7", func(i *workflow.Item) {
			i.Header = http.Header{"Content-Type": {"application/json"}, "Upstash-Workflow-Invoke-Count": {"7"}}
		}},
		{"invocation", "Upstash-Workflow-Init: true\nUpstash-Workflow-Invoke: true\nUpstash-Forward-Upstash-Workflow-Invoke-Count: 7", func(i *workflow.Item) {
			i.Init, i.Invocation, i.InvokeDepth = true, &workflow.Invocation{}, 7
			i.Header = http.Header{"Content-Type": {"application/json"}, "Upstash-Workflow-Invoke-Count": {"7"}}
		}},
		{"headers of a first request (1.5)",
			"Upstash-Forward-Accept-Encoding: br\nUpstash-Forward-Host: x\nUpstash-Forward-Content-Length: 1\nUpstash-Forward-X: a\nContent-Type: text/plain",
			func(i *workflow.Item) { i.Header = http.Header{"Content-Type": {"text/plain"}, "X": {"a"}} }},
		{"delay and label", "Upstash-Delay: 1m\nUpstash-Label: l", func(i *workflow.Item) {
			i.Delay, i.Labels = time.Minute, []string{"l"}
		}},
		{"call (4.5)", "Upstash-Workflow-CallType: toCallback\nUpstash-Forward-Accept-Encoding: br\nUpstash-Callback: https://c\n" +
			"Upstash-Callback-Feature-Set: f\nUpstash-Callback-Failure-Callback: https://d\nUpstash-Callback-Failure-Callback-Feature-Set: InitialBody",
			func(i *workflow.Item) {
				i.CallType = posthaste.CallRequest
				i.Header = http.Header{"Accept-Encoding": {"br"}}
				i.Callback = &posthaste.Callback{
					URL: "https://c",
					Settings: posthaste.Settings{Dialect: posthaste.DialectUpstash, FailureCallback: &posthaste.Callback{
						URL:      "https://d",
						Settings: posthaste.Settings{Dialect: posthaste.DialectUpstash},
						Given:    http.Header{"Upstash-Failure-Callback-Feature-Set": {"InitialBody"}},
					}},
					Given: http.Header{
						"Upstash-Callback-Feature-Set":                  {"f"},
						"Upstash-Callback-Failure-Callback":             {"https://d"},
						"Upstash-Callback-Failure-Callback-Feature-Set": {"InitialBody"},
					},
				}
			}},
		{"call without anybody to tell", "Upstash-Workflow-CallType: toCallback\nUpstash-Callback-Failure-Callback: https://d", func(i *workflow.Item) {
			i.CallType, i.Header = posthaste.CallRequest, nil
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := readRunItem(t, "Upstash-Workflow-RunId: r\n"+test.lines)
			if err != nil {
				t.Fatal(err)
			}
			want := step
			want.Header = maps.Clone(step.Header)
			test.change(&want)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(engine.Publication{})); diff != "" {
				t.Errorf("item differs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRunIDs checks that a run is started only under an id that comes back from its
// endpoint, and that one which was started before is still found by any (contract,
// workflows 1.2).
func TestRunIDs(t *testing.T) {
	const start = "Upstash-Workflow-Init: true\nUpstash-Workflow-RunId: "
	for _, id := range []string{"wfr_V1StGXR8_Z5jdHi6B-myT", "order 17", "a@b,c;d", `it's "quoted"`, "a+b&c=d", "...", "~"} {
		if item, err := readRunItem(t, start+id); err != nil || item.RunID != id {
			t.Errorf("id %q: %q, %v", id, item.RunID, err)
		}
	}
	for _, id := range []string{"größe", "日本", "a/b", `a\b`, "a?b", "a#b", "a%2Fb", "a\tb", ".", ".."} {
		_, err := readRunItem(t, start+id)
		want := fmt.Sprintf(`Upstash-Workflow-Runid %q is not an id for a new workflow run: printable ASCII without / \ ? # and %%`, id)
		if posthaste.ErrorCode(err) != posthaste.CodeInvalid || err.Error() != want {
			t.Errorf("id %q: %v, want %s", id, err, want)
		}
		if item, err := readRunItem(t, "Upstash-Workflow-RunId: "+id); err != nil || item.RunID != id {
			t.Errorf("id %q of a run that goes on: %q, %v", id, item.RunID, err)
		}
	}
}

// TestRunDialect checks that a run, in whatever names it was triggered, is delivered with
// those that SDKs read, and so is its failure callback (contract, decision 1).
func TestRunDialect(t *testing.T) {
	const rest = "-Workflow-RunId: r\n"
	const callback = "-Failure-Callback: https://b.example"
	tests := []struct {
		name, lines string
		want        posthaste.Dialect
	}{
		{"of SDKs", "Upstash" + rest + "Upstash" + callback, posthaste.DialectUpstash},
		{"the other one", "Service" + rest + "Service" + callback, posthaste.DialectBoth},
		{"both", "Service" + rest + "Upstash" + callback, posthaste.DialectBoth},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			item, err := readRunItem(t, test.lines)
			if err != nil {
				t.Fatal(err)
			}
			if item.Dialect != test.want || item.FailureCallback.Settings.Dialect != test.want {
				t.Errorf("dialects %d and %d, want %d", item.Dialect, item.FailureCallback.Settings.Dialect, test.want)
			}
		})
	}
}

// TestTriggerItem checks what a trigger adds to what it was given (contract, workflows
// 2.4 and 6.1).
func TestTriggerItem(t *testing.T) {
	const all = posthaste.FeatureLazyFetch | posthaste.FeatureInitialBody | posthaste.FeatureDetectTrigger | posthaste.FeatureTriggerOnConfig
	header := parseLines("Upstash-Forward-X: a\nService-Forward-Y: b\nUpstash-Failure-Callback-Forward-X: own\n" +
		"Upstash-Workflow-Init: false\nUpstash-Workflow-CallType: toCallback\nUpstash-Workflow-Invoke: true\n" +
		"Upstash-Workflow-Url: https://b.example\nUpstash-Feature-Set: InitialBody\nUpstash-Workflow-CreatedAt: 1\nUpstash-Workflow-RunId: r")
	c, err := Collect(header, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := Decoder{CheckHost: allowAll}
	got, err := d.TriggerItem(workflowURL, c, Incoming{Header: header})
	if err != nil {
		t.Fatal(err)
	}
	want := workflow.Item{
		Publication: engine.Publication{Destination: workflowURL, Settings: posthaste.Settings{
			Header: http.Header{"Content-Type": {"application/json"}, "Upstash-Workflow-Sdk-Version": {"1"}, "X": {"a"}, "Y": {"b"}},
			FailureCallback: &posthaste.Callback{
				URL:      workflowURL,
				Settings: posthaste.Settings{Header: http.Header{"X": {"own"}, "Y": {"b"}}},
				Given: http.Header{
					"X": {"own"}, "Y": {"b"},
					"Upstash-Failure-Callback-Feature-Set": {allFeatures},
				},
			},
		}},
		RunID:       "r",
		WorkflowURL: workflowURL,
		Init:        true,
		Features:    all | posthaste.FeatureCheckSDK,
		FetchingSDK: true,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(engine.Publication{})); diff != "" {
		t.Errorf("item differs (-want +got):\n%s", diff)
	}
	if len(c.values) != 10 {
		t.Errorf("the controls that were given were changed: %v", c.values)
	}
}

// TestWaitTimeout checks how long a step may be said to wait (contract, workflows 4.6
// and D 23).
func TestWaitTimeout(t *testing.T) {
	tests := []struct {
		name, raw, text string
		want            time.Duration
	}{
		{"text", `"1d10h30m"`, "1d10h30m", 34*time.Hour + 30*time.Minute},
		{"text without a unit", `"90"`, "90", 90 * time.Second},
		{"number", `1.5`, "1.5", 1500 * time.Millisecond},
		{"nothing", ``, "7d", 7 * 24 * time.Hour},
		{"null", `null`, "7d", 7 * 24 * time.Hour},
		{"no time at all", `"0s"`, "0s", time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, text, err := parseWaitTimeout(json.RawMessage(test.raw))
			if err != nil || got != test.want || text != test.text {
				t.Errorf("parseWaitTimeout(%s) = %s, %q, %v; want %s, %q", test.raw, got, text, err, test.want, test.text)
			}
		})
	}
}

// FuzzInvocation checks that any body is refused or says who invokes.
func FuzzInvocation(f *testing.F) {
	f.Add(`{"body":"{}","headers":{"Upstash-Forward-X":["a"],"content-type":["text/plain"]},"workflowRunId":"w","workflowRunCreatedAt":1,"step":{"stepId":1,"stepType":"Invoke"}}`)
	f.Add(`{"body":{"a":1},"workflowRunId":"w","step":{"stepType":"x"}}`)
	f.Add(`{"workflowRunId":"w","workflowRunCreatedAt":-1,"step":{},"headers":{"Upstash-Delay":"x"}}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, body string) {
		item := workflow.Item{Init: true, Invocation: &workflow.Invocation{}}
		if err := (Decoder{CheckHost: allowAll}).SetBody(&item, []byte(body)); err != nil {
			checkRefusal(t, err)
			return
		}
		invocation := item.Invocation
		checkSettings(t, invocation.Delivery)
		if _, isStep := workflow.ParseStep(invocation.Step); !isStep || invocation.Invoker.ID == "" ||
			!invocation.Invoker.CreatedAt.IsZero() && invocation.Invoker.CreatedAt.UnixMilli() <= 0 {
			t.Fatalf("invocation %+v", invocation)
		}
	})
}

// FuzzWait checks that any body is refused or becomes a wait that can end.
func FuzzWait(f *testing.F) {
	f.Add(`{"url":"https://h","timeout":"7d","timeoutUrl":"https://h/x","timeoutHeaders":{"X":["a"],"x":["a"]},"timeoutBody":{"a":1},"step":{"stepId":1,"stepType":"Wait"}}`)
	f.Add(`{"url":"https://h","timeout":1e3,"step":{"stepId":0,"targetStep":2,"stepType":"Wait"}}`)
	f.Add(`{"url":"","timeout":["1s"],"timeoutHeaders":{"Upstash-Callback":"https://h"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var body WaitBody
		if json.Unmarshal([]byte(text), &body) != nil {
			return
		}
		header := http.Header{"Upstash-Workflow-Runid": {"w"}}
		c, err := Collect(header, nil)
		if err != nil {
			t.Fatal(err)
		}
		req, err := Decoder{CheckHost: allowAll}.WaitRequest(&body, c, Incoming{Header: header})
		if err != nil {
			checkRefusal(t, err)
			return
		}
		checkSettings(t, req.Delivery)
		checkSettings(t, req.TimeoutDelivery)
		if _, isStep := workflow.ParseStep(req.Step); !isStep || req.Timeout <= 0 || req.TimeoutText == "" ||
			!IsURL(req.TimeoutURL) || !IsURL(req.Shown.URL) {
			t.Fatalf("request %+v", req)
		}
	})
}

// FuzzRunItem checks that any headers are refused or make an item of the run that they
// name, of which the trigger can be made.
func FuzzRunItem(f *testing.F) {
	f.Add("Upstash-Workflow-RunId: w\nUpstash-Workflow-Init: true\nUpstash-Feature-Set: LazyFetch\nUpstash-Workflow-Url: https://h")
	f.Add("Service-Workflow-RunId: w\nUpstash-Workflow-CallType: toCallback\nUpstash-Callback: https://h\nUpstash-Callback-Failure-Callback: https://h")
	f.Add("Upstash-Workflow-RunId: w\nUpstash-Workflow-Init: true\nUpstash-Workflow-Invoke: true\nUpstash-Forward-Upstash-Workflow-Invoke-Count: 3")
	f.Fuzz(func(t *testing.T, lines string) {
		header := parseLines(lines)
		c, err := Collect(header, nil)
		if err != nil || !c.OfRun() {
			return
		}
		d := Decoder{CheckHost: allowAll}
		for _, read := range []func(string, Controls, Incoming) (workflow.Item, error){d.RunItem, d.TriggerItem} {
			item, err := read(workflowURL, c, Incoming{Header: header})
			if err != nil {
				if code := posthaste.ErrorCode(err); code != posthaste.CodeInvalid && code != posthaste.CodeLimit {
					t.Fatalf("error %v", err)
				}
				continue
			}
			checkSettings(t, item.Settings)
			if item.RunID == "" || len(item.RunID) > posthaste.MaxRunIDLen || item.Destination != workflowURL || item.InvokeDepth < 0 ||
				item.Invocation != nil && !item.Init || strings.TrimSpace(item.RunID) != item.RunID {
				t.Fatalf("item %+v", item)
			}
		}
	})
}
