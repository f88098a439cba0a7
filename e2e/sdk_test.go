package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// withoutNodeVariable names the environment variable that, when set, lets the
// tests of the SDK be skipped on a machine without Node.js.
const withoutNodeVariable = "POSTHASTE_E2E_WITHOUT_NODE"

// sdkDirectory holds the programs that use the SDK, and its npm packages.
const sdkDirectory = "sdk"

// TestSDK runs programs that use the unmodified npm package @upstash/qstash
// (contract, messages 2.13).
func TestSDK(t *testing.T) {
	t.Parallel()
	needNode(t)
	t.Run("messages", func(t *testing.T) { runNode(t, "messages.mjs", serveForSDK(t)...) })
	t.Run("messages in development mode", func(t *testing.T) {
		_, c := startDev(t, "--port", "0")
		base := described(t, c.base)
		port := base[strings.LastIndexByte(base, ':')+1:]
		output := runNode(t, "messages.mjs", "QSTASH_DEV=true", "QSTASH_DEV_PORT="+port)
		checkFound(t, output, base)
	})
	t.Run("messages in development mode on the default port", func(t *testing.T) {
		if *backend != backendEmbedded {
			t.Skip("a development server has no database; both runs would use the port at once")
		}
		needDefaultPort(t)
		_, c := startDev(t)
		output := runNode(t, "messages.mjs", "QSTASH_DEV=true")
		checkFound(t, output, c.base)
	})
}

// checkFound fails the test unless the SDK says that it found the server: else it
// would have looked for one to download.
func checkFound(t *testing.T, output, url string) {
	t.Helper()
	if want := "Server already running at " + url; !strings.Contains(output, want) {
		t.Errorf("the SDK did not say %q", want)
	}
}

// needDefaultPort skips the test if another program listens where development
// servers do. In CI nothing may.
func needDefaultPort(t *testing.T) {
	t.Helper()
	const address = "127.0.0.1:8080"
	listener, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		_ = listener.Close()
	case os.Getenv("CI") != "":
		t.Fatalf("the default port has to be free: %v", err)
	default:
		t.Skipf("%s is taken on this machine", address)
	}
}

// runNode runs a program of the SDK directory with nothing in its environment
// but what is given, and returns its output. The test fails if the program does, or says
// nothing for a while: it says so when a test of it has ended.
func runNode(t *testing.T, program string, environment ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said := &saying{silence: time.AfterFunc(longestSilence, cancel)}
	defer said.silence.Stop()
	cmd := exec.CommandContext(ctx, "node", "--test-reporter=spec", program)
	cmd.Dir = sdkDirectory
	cmd.Env = append(environment, "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir())
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, &said.text)
	}
	t.Log(&said.text)
	return said.text.String()
}

// longestSilence is how long a program may say nothing: longer than any wait of it.
const longestSilence = 5 * patience

// saying is what a program says.
type saying struct {
	text    bytes.Buffer
	silence *time.Timer // ends it
}

func (s *saying) Write(more []byte) (int, error) {
	s.silence.Reset(longestSilence)
	return s.text.Write(more)
}

// needNode provides the npm packages.
func needNode(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		if os.Getenv(withoutNodeVariable) != "" {
			t.Skipf("no Node.js: %v", err)
		}
		t.Fatalf("the tests of the SDK need Node.js and npm, or %s=1 to do without: %v", withoutNodeVariable, err)
	}
	if err := installPackages(); err != nil {
		t.Fatal(err)
	}
}

// installPackages installs what the lock file names, unless that was done since
// the file last changed.
var installPackages = sync.OnceValue(func() error {
	if installed() {
		return nil
	}
	cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund")
	cmd.Dir = sdkDirectory
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, output)
	}
	return nil
})

// installed compares the lock file with the one that npm leaves with the
// packages.
func installed() bool {
	wanted, err := os.Stat(filepath.Join(sdkDirectory, "package-lock.json"))
	if err != nil {
		return false
	}
	present, err := os.Stat(filepath.Join(sdkDirectory, "node_modules", ".package-lock.json"))
	return err == nil && !wanted.ModTime().After(present.ModTime())
}
