package pgtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// poolerSettings let each transaction have another connection than the one before, of
// the few there are, so that nothing that is left in a session is found again.
const poolerSettings = `[databases]
* = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 5
server_round_robin = 1
logfile = %s
`

// tracksNothing keeps a pooler that could track prepared statements from it. Older ones refuse the
// setting.
const tracksNothing = "max_prepared_statements = 0\n"

// Pooler starts a PgBouncer between a test and the cluster, which lends its connections
// for one transaction at a time, and returns the URL of a database behind it. A test that wants
// it to track prepared statements is skipped where the one that is installed cannot. The
// program must be installed. It ends with the test.
func (c *Cluster) Pooler(t testing.TB, database string, tracks bool) (url string) {
	t.Helper()
	c.NeedOwn(t)
	canTrack := tracksStatements(t, poolerVersion(t))
	if tracks && !canTrack {
		t.Skip("this PgBouncer tracks no prepared statements: 1.21 or later does")
	}
	port, err := FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(c.directory, fmt.Sprintf("pooler%d.ini", port))
	text := fmt.Sprintf(poolerSettings, c.port, port, settings+".log")
	if canTrack && !tracks {
		text += tracksNothing
	}
	if err := os.WriteFile(settings, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(settings+".log", os.O_CREATE|os.O_WRONLY, 0o666)
	if err == nil {
		err = errors.Join(log.Chmod(0o666), log.Close()) // whatever user the pooler runs as
	}
	if err != nil {
		t.Fatal(err)
	}
	// The input is held open by nobody else: the pooler ends with the test binary, too.
	pooler := exec.Command("sh", "-c", `pgbouncer -q "$0" & cat >/dev/null; kill $!`, settings)
	pooler.Env = poolerEnvironment()
	pooler.SysProcAttr = &syscall.SysProcAttr{Credential: c.as, Setpgid: true}
	alive, err := pooler.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := pooler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = alive.Close()
		_ = pooler.Wait()
	})
	address := fmt.Sprintf("127.0.0.1:%d", port)
	awaitListener(t, address, settings+".log")
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", address, database)
}

// poolerEnvironment has the pooler among its programs.
func poolerEnvironment() []string {
	return append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin")
}

func poolerVersion(t testing.TB) string {
	t.Helper()
	asked := exec.Command("sh", "-c", "pgbouncer --version")
	asked.Env = poolerEnvironment()
	said, err := asked.Output()
	if err != nil {
		t.Fatalf("pgbouncer --version: %v", err)
	}
	return string(said)
}

// tracksStatements reports whether a pooler of this version can track prepared statements.
func tracksStatements(t testing.TB, version string) bool {
	t.Helper()
	const first = 21
	var major, minor int
	if _, err := fmt.Sscanf(version, "PgBouncer %d.%d", &major, &minor); err != nil {
		t.Fatalf("the version of the pooler, %q: %v", version, err)
	}
	return major > 1 || minor >= first
}

// awaitListener returns when somebody listens at an address, or ends the test with a log.
func awaitListener(t testing.TB, address, log string) {
	t.Helper()
	const patience = 30 * time.Second
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log)
			t.Fatalf("the pooler does not start: %v\n%s", err, text)
		}
	}
}
