package pgtest_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/store/postgres/pgtest"
)

// abandon tells this test binary to start a cluster, say where it is, and wait to be
// killed.
const abandon = "PGTEST_ABANDON"

// patience is how long the test waits for what must come: far longer than it takes.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(abandon) == "" {
		os.Exit(m.Run())
	}
	c, err := pgtest.Start()
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(c.URL("postgres") + "\n")
	time.Sleep(time.Hour) // without cgo, select {} would be a deadlock, of which the program dies by itself
}

// A test binary that is killed, as one is that runs for too long, leaves no server behind.
func TestAKilledTestLeavesNoServer(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), abandon+"=1")
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(line)
	if !answers(t, url) {
		t.Fatal("the server of the child does not answer")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	for deadline := time.Now().Add(patience); answers(t, url); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server outlives the test")
		}
	}
}

func answers(t *testing.T, url string) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err == nil {
		_ = conn.Close(t.Context())
	}
	return err == nil
}
