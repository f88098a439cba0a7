package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// TestSDKAreas runs programs that use the unmodified npm package @upstash/qstash
// for queues, URL groups, schedules, dead letters and the other areas of its
// client (contract, messages 2.13).
func TestSDKAreas(t *testing.T) {
	needNode(t)
	t.Run("serve", func(t *testing.T) { runNode(t, "areas.mjs", serveForSDK(t)...) })
	t.Run("dev", func(t *testing.T) {
		_, c := startDev(t, "--port", "0")
		port := c.base[strings.LastIndexByte(c.base, ':')+1:]
		runNode(t, "areas.mjs", "QSTASH_DEV=true", "QSTASH_DEV_PORT="+port)
	})
}

// TestSDKTicks waits for a schedule to tick, for up to a minute (contract,
// messages 6.3).
func TestSDKTicks(t *testing.T) {
	if testing.Short() {
		t.Skip("a schedule ticks once a minute")
	}
	t.Parallel()
	needNode(t)
	runNode(t, "ticks.mjs", serveForSDK(t)...)
}

// TestGoSDK runs the tests of the module gosdk, which use the unmodified Go
// module github.com/upstash/qstash-go (contract, messages 2.13).
func TestGoSDK(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "./...")
	cmd.Dir = "gosdk"
	cmd.Env = append(bareEnvironment(), serveForSDK(t)...)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go test: %v\n%s", err, output)
	}
}

// serveForSDK starts a server and returns the environment by which SDKs find it, behind
// a proxy that compares what they say with the description of the API.
func serveForSDK(t *testing.T) []string {
	t.Helper()
	_, c := startServe(t, t.TempDir(), "--log-level", "error")
	current, next, err := c.keys(t.Context())
	if err != nil {
		t.Fatalf("read the signing keys: %v", err)
	}
	return []string{
		"QSTASH_URL=" + described(t, c.base), "QSTASH_TOKEN=" + c.token,
		"QSTASH_CURRENT_SIGNING_KEY=" + current, "QSTASH_NEXT_SIGNING_KEY=" + next,
	}
}
