package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// moments replaces times in a text, which are shown in the zone of the machine.
func moments(text string) string {
	return strings.ReplaceAll(text, time.UnixMilli(1_700_000_000_000).Format(tableTime), "14 NOV 2023, 22:13:20.000 UTC")
}

func TestPrintFailed(t *testing.T) {
	const entry = `{"dlqId":"17-0","workflowRunId":"wfr_a","workflowUrl":"http://h/w","url":"http://h/w?x",
		"workflowCreatedAt":1700000000000,"failedAt":1700000000000,"responseStatus":0,"error":"no answer\u001b[2J",
		"responseBody":"","label":"","failureFunctionState":"CALLBACK_FAIL"}`
	const want = `dead letter   17-0
run           wfr_a
workflow      http://h/w
created       14 NOV 2023, 22:13:20.000 UTC
failed        14 NOV 2023, 22:13:20.000 UTC
delivery to   http://h/w?x
status        none
error         no answer` + "\uFFFD" + `[2J
callback      CALLBACK_FAIL
`
	var out bytes.Buffer
	if err := printFailedRun(terminal{Out: &out}, json.RawMessage(entry)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, moments(out.String())); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

// TestPrintBinary checks that of an answer that is no text its size is told.
func TestPrintBinary(t *testing.T) {
	for base64, want := range map[string]string{"/w==": "binary, 1 B", "//4=": "binary, 2 B", "//79": "binary, 3 B"} {
		for name, print := range map[string]func(terminal, json.RawMessage) error{
			"message": printMessage,
			"run":     printFailedRun,
		} {
			var out bytes.Buffer
			entry := json.RawMessage(`{"dlqId":"17-0","responseBodyBase64":"` + base64 + `"}`)
			if err := print(terminal{Out: &out}, entry); err != nil {
				t.Fatal(err)
			}
			if line := "response      " + want + "\n"; !strings.Contains(out.String(), line) {
				t.Errorf("%s, %s: no line %q in\n%s", name, base64, line, &out)
			}
		}
	}
}

// TestBrief checks that the line break that ends many answers is not shown.
func TestBrief(t *testing.T) {
	for text, want := range map[string]string{"no database\n": "no database", "\r\n": "", "a\nb": "a\nb"} {
		if got := brief(text); got != want {
			t.Errorf("brief(%q) is %q, not %q", text, got, want)
		}
	}
}

func TestPrintRun(t *testing.T) {
	run := `{"workflowRunId":"wfr_a","workflowUrl":"http://h/w","workflowState":"RUN_FAILED",
		"workflowRunCreatedAt":1700000000000,"workflowRunCompletedAt":1700000000000,"dlqId":"17-0","successor":{"workflowRunId":"wfr_b"},"steps":[
		{"type":"sequential","steps":[{"stepName":"init","stepType":"Initial","state":"STEP_SUCCESS","createdAt":1700000000000,"out":"` + strings.Repeat("x", 90) + `"}]},
		{"type":"parallel","steps":[{"stepId":1,"stepName":"pay","state":"STEP_SUCCESS","createdAt":1700000000000},
			{"stepId":2,"stepName":"pack","state":"STEP_SUCCESS","createdAt":1700000000000},
			{"stepId":3,"stepName":"rest","state":"STEP_SUCCESS","createdAt":1700000000000,"sleepFor":60,"messageId":"msg_s"}]},
		{"type":"next","steps":[{"state":"STEP_RETRY","nextDeliveryTime":1700000000000,"errors":[
			{"error":"","body":"first"},{"error":"500","body":"{\"error\":\"Error\",\"message\":\"second\",\"stack\":\"…\"}"}]}]}]}`
	want := `run           wfr_a
workflow      http://h/w
state         RUN_FAILED
created       14 NOV 2023, 22:13:20.000 UTC
ended         14 NOV 2023, 22:13:20.000 UTC
took          0s
restarted as  wfr_b
ENDED                          STATE          TOOK     TYPE      STEP                      RESULT
14 NOV 2023, 22:13:20.000 UTC  STEP_SUCCESS   20ms     Initial   init                      ` + strings.Repeat("x", 80) + `…
14 NOV 2023, 22:13:20.000 UTC  STEP_SUCCESS   1.5s               ┌ pay
14 NOV 2023, 22:13:20.000 UTC  STEP_SUCCESS   3s                 ├ pack
14 NOV 2023, 22:13:20.000 UTC  STEP_SUCCESS   4s                 └ rest
                               STEP_RETRY     0s                                           500 Error: second, next 14 NOV 2023, 22:13:20.000 UTC
`
	id := func(n int) *int { return &n }
	events := []runEvent{
		{1_700_000_000_020, "STEP_SUCCESS", &runStepOf{Name: "init"}},
		{1_700_000_000_020, "STEP_PROGRESS", &runStepOf{ID: id(1)}},
		{1_700_000_001_520, "STEP_SUCCESS", &runStepOf{ID: id(1)}},
		{1_700_000_003_020, "STEP_SUCCESS", &runStepOf{ID: id(2)}},
		{1_700_000_004_020, "STEP_SUCCESS", &runStepOf{ID: id(3), MessageID: "msg_s"}}, // run before it was due
	}
	var out bytes.Buffer
	if err := printRun(terminal{Out: &out}, json.RawMessage(run), func(listedRun) ([]runEvent, error) { return events, nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, moments(out.String())); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

func TestColours(t *testing.T) {
	var out bytes.Buffer
	if err := runTable.write(&out, look{coloured: true}, json.RawMessage(`{"workflowState":"RUN_FAILED"}`)); err != nil {
		t.Fatal(err)
	}
	if want := string(bad) + "RUN_FAILED  " + normal; !strings.Contains(out.String(), want) {
		t.Errorf("printed %q, want %q in it", out.String(), want)
	}
}
