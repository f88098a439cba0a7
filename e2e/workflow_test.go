package e2e

import (
	"strings"
	"testing"
)

// workflowAreas are the programs of sdk/workflow, one for each theme.
var workflowAreas = []string{
	"steps", "starting", "calls", "events", "webhooks", "invoking", "failing", "payloads",
	"flowcontrol", "cancelling", "logs", "deadletters", "older",
}

// TestWorkflows runs programs that use the unmodified npm package
// @upstash/workflow, for endpoints and as clients (contract, workflows 3 to 8).
// Each has a server of its own: some of them cancel or delete everything.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	needNode(t)
	for _, area := range workflowAreas {
		t.Run(area, func(t *testing.T) {
			t.Parallel()
			runNode(t, "workflow/"+area+".mjs", serveForWorkflows(t, largePayloads...)...)
		})
	}
	t.Run("answers", func(t *testing.T) {
		t.Parallel()
		runNode(t, "workflow/answers.mjs", serveForWorkflows(t)...)
	})
	for _, area := range []string{"payloads", "webhooks"} { // with the limits that there are unless they are set
		t.Run(area+" in development mode", func(t *testing.T) {
			t.Parallel()
			_, c := startDev(t, "--port", "0")
			port := c.base[strings.LastIndexByte(c.base, ':')+1:]
			runNode(t, "workflow/"+area+".mjs", "QSTASH_DEV=true", "QSTASH_DEV_PORT="+port)
		})
	}
}

// largePayloads lets messages and answers be larger than a delivery of a run can
// be, beyond which endpoints have to fetch it.
var largePayloads = []string{"--max-body-size", "16MiB", "--max-response-size", "16MiB"}

// serveForWorkflows is serveForSDK for the programs of workflowAreas.
func serveForWorkflows(t *testing.T, flags ...string) []string {
	t.Helper()
	_, c := startServe(t, t.TempDir(), append([]string{"--log-level", "error"}, flags...)...)
	current, next, err := c.keys(t.Context())
	if err != nil {
		t.Fatalf("read the signing keys: %v", err)
	}
	return []string{
		"QSTASH_URL=" + described(t, c.base), "QSTASH_TOKEN=" + c.token, "SERVER_URL=" + c.base,
		"QSTASH_CURRENT_SIGNING_KEY=" + current, "QSTASH_NEXT_SIGNING_KEY=" + next,
	}
}
