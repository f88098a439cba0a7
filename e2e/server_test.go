package e2e

import (
	"bytes"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// server is a process of the program.
type server struct {
	cmd    *exec.Cmd
	output *transcript
	exited chan struct{} // closed when the process has ended
}

// startDev starts a development server that is stopped when the test ends.
// Without arguments it listens on its default port.
func startDev(t *testing.T, args ...string) (*server, *client) {
	t.Helper()
	if *backend != backendEmbedded {
		args = append(storeFlags(t, t.TempDir()), args...)
	}
	s := launch(t, append([]string{"dev"}, args...)...)
	t.Cleanup(func() { s.stop(t) })
	return s, newClient(s.url(t), devToken)
}

// startServe starts a server on a free port and a directory, or the database that takes
// its place. It is stopped when
// the test ends. Its user is the one of the client that is returned.
func startServe(t *testing.T, directory string, args ...string) (*server, *client) {
	t.Helper()
	s := launchServe(t, directory, args...)
	t.Cleanup(func() { s.stop(t) })
	return s, newClient(s.url(t), testToken)
}

// launchServe is startServe for servers that the test ends itself.
func launchServe(t *testing.T, directory string, args ...string) *server {
	t.Helper()
	own := append([]string{"serve", "--listen", "127.0.0.1:0", "--token", testToken, "--destinations", "any"},
		storeFlags(t, directory)...)
	return launch(t, append(own, args...)...)
}

// launch starts the program and returns at once.
func launch(t *testing.T, args ...string) *server {
	t.Helper()
	return launchAs(t, exec.Command(binary, args...))
}

// launchAs is launch for a command that starts the program.
func launchAs(t *testing.T, cmd *exec.Cmd) *server {
	t.Helper()
	s := &server{
		cmd:    cmd,
		output: &transcript{ready: make(chan string, 1)},
		exited: make(chan struct{}),
	}
	s.cmd.Env = bareEnvironment()
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd, err)
	}
	go func() {
		_ = s.cmd.Wait() // how it ended is in ProcessState
		close(s.exited)
	}()
	return s
}

// url returns where the server takes requests, as soon as it says so.
func (s *server) url(t *testing.T) string {
	t.Helper()
	select {
	case url := <-s.output.ready:
		return url
	case <-s.exited:
		t.Fatalf("the server ended before it was ready:\n%s", s.output)
	case <-time.After(patience):
		s.kill(t)
		t.Fatalf("the server did not become ready:\n%s", s.output)
	}
	return ""
}

// stop asks the server to end and fails the test unless it does so in order.
func (s *server) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v; the server had ended on its own:\n%s", err, s.output)
		return
	}
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.kill(t)
		t.Fatalf("the server did not end after SIGTERM:\n%s", s.output)
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0:\n%s", code, s.output)
	}
	s.checkRaces(t)
}

// kill ends the process as kill -9 does, and returns when it is gone.
func (s *server) kill(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Errorf("kill: %v; the server had ended on its own:\n%s", err, s.output)
	}
	<-s.exited
	s.checkRaces(t)
}

func (s *server) checkRaces(t *testing.T) {
	t.Helper()
	if s.output.contains("WARNING: DATA RACE") {
		t.Errorf("the race detector found something:\n%s", s.output)
	}
}

// readyLine is the line by which every server says that it takes requests.
var readyLine = regexp.MustCompile(`(?m)^.* running at (http://\S+)$`)

// transcript keeps what a process writes.
type transcript struct {
	ready chan string // receives the URL of the line that says the server is ready

	mu        sync.Mutex
	text      []byte
	announced bool
}

// Write takes the next piece of output.
func (o *transcript) Write(piece []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, piece...)
	if o.announced {
		return len(piece), nil
	}
	whole := o.text[:bytes.LastIndexByte(o.text, '\n')+1]
	if match := readyLine.FindSubmatch(whole); match != nil {
		o.announced = true
		o.ready <- string(match[1])
	}
	return len(piece), nil
}

// String returns the end of the output, which is where the reason stands.
func (o *transcript) String() string {
	const tail = 8 << 10
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text[max(0, len(o.text)-tail):])
}

func (o *transcript) contains(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Contains(o.text, []byte(text))
}

// all returns the whole output.
func (o *transcript) all() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}
