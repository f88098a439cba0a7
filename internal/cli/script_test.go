package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rogpeppe/go-internal/testscript"

	"posthaste/internal/store/postgres/pgtest"
)

// patience is how long a script waits for something that must happen.
const patience = time.Minute

func TestMain(m *testing.M) {
	syscall.Umask(0) // the programs inherit it, so whatever they make private, they make so themselves
	testscript.Main(m, map[string]func(){"posthaste": program, "request": request, "agent": agent})
}

// program is the program as scripts run it.
func program() { os.Exit(Main(os.Args[1:])) }

// TestScripts runs testdata/script/*.txt against the real program. A script has
// free ports in $PORT, $NEXT, which is the one after it, and $FREE, and a
// destination in $SINK. Beside the commands of testscript there are
//
//	ready URL          wait until the server is ready
//	refused ADDRESS    wait until nobody listens on the address
//	received PATH N    wait until the destination was asked for a path N times
//	answer             let the destination answer /held..., which it holds until then
//	unready URL        wait until the server says that it is not ready, and answers nonetheless
//	sigterm            send SIGTERM to the programs in the background
//	sighup             send them SIGHUP
//	occupy ADDRESS     listen on an address until the script ends
//	holds-nothing DIR  fail unless the directory is empty
//	private PATH...    fail unless nobody but the owner may use what is there, and in it
//	expose DIR         let everybody read a directory and the files in it
//	outdate DIR        mark the store as written by a later version of the program
//
// the condition nohup, which says that programs do not end at SIGHUP, and the programs request and agent, below and in mcp_test.go.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               prepare,
		Deadline:            time.Now().Add(20 * time.Minute), // a program that does not end must not hold up the others
		Condition: func(name string) (bool, error) {
			if name != "nohup" {
				return false, fmt.Errorf("there is no condition %q", name)
			}
			return signal.Ignored(syscall.SIGHUP), nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ready":         positive(ready),
			"refused":       positive(refused),
			"received":      positive(received),
			"answer":        positive(answer),
			"sigterm":       positive(sigterm),
			"sighup":        positive(sighup),
			"unready":       positive(unready),
			"occupy":        positive(occupy),
			"holds-nothing": positive(holdsNothing),
			"outdate":       positive(outdate),
			"private":       positive(private),
			"expose":        positive(expose),
			"damage":        positive(damage),
		},
	})
}

// positive makes a command that cannot be negated.
func positive(command func(*testscript.TestScript, []string)) func(*testscript.TestScript, bool, []string) {
	return func(script *testscript.TestScript, negated bool, args []string) {
		if negated {
			script.Fatalf("this command cannot be negated")
		}
		command(script, args)
	}
}

// prepare gives a script its environment.
func prepare(env *testscript.Env) error {
	destination := newSink()
	env.Defer(destination.Close)
	env.Values[sinkKey{}] = destination
	env.Setenv("SINK", destination.URL)
	env.Setenv("TMPDIR", filepath.Join(env.WorkDir, "tmp"))
	env.Setenv("GORACE", "atexit_sleep_ms=0")   // programs under the race detector end a second late
	env.Setenv("POSTHASTE_SHUTDOWN_LEAD", "0s") // nobody waits for a load balancer
	env.Setenv("TOKEN", devUsers[0].token(false).Encode())
	port, err := pgtest.FreePorts(3)
	env.Setenv("PORT", strconv.Itoa(port))
	env.Setenv("NEXT", strconv.Itoa(port+1))
	env.Setenv("FREE", strconv.Itoa(port+2))
	return errors.Join(err, os.Mkdir(filepath.Join(env.WorkDir, "tmp"), 0o700))
}

// await waits until something is so.
func await(script *testscript.TestScript, what string, isSo func() bool) {
	for deadline := time.Now().Add(patience); !isSo(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			script.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// ready waits until a server answers that it is ready.
func ready(script *testscript.TestScript, args []string) {
	await(script, args[0]+" is ready", func() bool {
		response, err := http.Get(args[0] + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// unready waits until a server answers that it is not ready.
func unready(script *testscript.TestScript, args []string) {
	await(script, args[0]+" is not ready", func() bool {
		response, err := http.Get(args[0] + "/readyz")
		script.Check(err)
		response.Body.Close()
		return response.StatusCode == http.StatusServiceUnavailable
	})
}

// refused waits until connections to an address are refused.
func refused(script *testscript.TestScript, args []string) {
	await(script, args[0]+" refuses connections", func() bool {
		connection, err := net.Dial("tcp", args[0])
		if err == nil {
			connection.Close()
		}
		return err != nil
	})
}

// sigterm asks programs in the background to end.
func sigterm(script *testscript.TestScript, _ []string) { signalAll(script, syscall.SIGTERM) }

// sighup tells programs in the background that their terminal was closed.
func sighup(script *testscript.TestScript, _ []string) { signalAll(script, syscall.SIGHUP) }

func signalAll(script *testscript.TestScript, signal syscall.Signal) {
	for _, command := range script.BackgroundCmds() {
		script.Check(command.Process.Signal(signal))
	}
}

// occupy takes an address away from the programs of the script.
func occupy(script *testscript.TestScript, args []string) {
	listener, err := net.Listen("tcp", args[0])
	script.Check(err)
	script.Defer(func() { listener.Close() })
}

func holdsNothing(script *testscript.TestScript, args []string) {
	entries, err := os.ReadDir(script.MkAbs(args[0]))
	script.Check(err)
	if len(entries) > 0 {
		script.Fatalf("%s holds %s", args[0], entries[0].Name())
	}
}

func private(script *testscript.TestScript, args []string) {
	for _, arg := range args {
		script.Check(filepath.WalkDir(script.MkAbs(arg), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				err = fmt.Errorf("others may use %s: %s", path, info.Mode())
			}
			return err
		}))
	}
}

func expose(script *testscript.TestScript, args []string) {
	dir := script.MkAbs(args[0])
	entries, err := os.ReadDir(dir)
	script.Check(err)
	for _, entry := range entries {
		script.Check(os.Chmod(filepath.Join(dir, entry.Name()), 0o644))
	}
	script.Check(os.Chmod(dir, 0o755))
}

func outdate(script *testscript.TestScript, args []string) {
	db, err := pebble.Open(script.MkAbs(args[0]), &pebble.Options{FormatMajorVersion: pebble.FormatNewest})
	script.Check(err)
	const later = 99
	script.Check(db.Set([]byte("mformat"), []byte{later}, pebble.Sync))
	script.Check(db.Close())
}

// sink is a destination that counts what it is asked for. It holds what goes to
// /held..., and refuses for good what goes to /broken..., which it sends back.
type sink struct {
	*httptest.Server
	answer func() // lets requests for held paths go on

	mu     sync.Mutex
	counts map[string]int
	change chan struct{} // closed and replaced with every count
}

// sinkKey finds the sink among a script's values.
type sinkKey struct{}

func newSink() *sink {
	held := make(chan struct{})
	s := &sink{
		answer: sync.OnceFunc(func() { close(held) }),
		counts: make(map[string]int),
		change: make(chan struct{}),
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // only then the end of the request is noticed
		s.count(r.URL.Path)
		if strings.HasPrefix(r.URL.Path, "/broken") {
			w.Header().Set("Upstash-NonRetryable-Error", "true")
			w.WriteHeader(489)
			_, _ = w.Write(body)
		}
		if !strings.HasPrefix(r.URL.Path, "/held") {
			return
		}
		select {
		case <-held:
		case <-r.Context().Done():
		}
	}))
	return s
}

// Close ends the sink and whatever it holds.
func (s *sink) Close() {
	s.answer()
	s.Server.Close()
}

func (s *sink) count(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[path]++
	close(s.change)
	s.change = make(chan struct{})
}

func (s *sink) counted(path string) (int, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[path], s.change
}

// received waits until the sink was asked for a path often enough.
func received(script *testscript.TestScript, args []string) {
	want, err := strconv.Atoi(args[1])
	script.Check(err)
	destination := script.Value(sinkKey{}).(*sink)
	timeout := time.After(patience)
	for {
		count, change := destination.counted(args[0])
		if count >= want {
			return
		}
		select {
		case <-change:
		case <-timeout:
			script.Fatalf("%s was asked for %d times, not %d, within %s", args[0], count, want, patience)
		}
	}
}

func answer(script *testscript.TestScript, _ []string) {
	script.Value(sinkKey{}).(*sink).answer()
}

// request is a program for scripts: request METHOD URL [BODY] sends a request
// with the token in $TOKEN and the header in $HEADER, as NAME:VALUE, and prints the
// status, a header of CORS if there is one, and the body.
func request() {
	if err := sendRequest(os.Args[1], os.Args[2], strings.Join(os.Args[3:], " ")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func sendRequest(method, url, body string) error {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("TOKEN"))
	if name, value, given := strings.Cut(os.Getenv("HEADER"), ":"); given {
		request.Header.Set(name, value)
	}
	if method == http.MethodOptions {
		request.Header.Set("Access-Control-Request-Method", http.MethodPost)
		request.Header.Set("Access-Control-Request-Headers", "authorization")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	fmt.Println(response.Status)
	if allowed := response.Header.Get("Access-Control-Allow-Headers"); allowed != "" {
		fmt.Println("allowed headers:", allowed)
	}
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}

// damage flips a bit in the middle of each file that a pattern matches.
func damage(script *testscript.TestScript, args []string) {
	names, err := filepath.Glob(script.MkAbs(args[0]))
	if err != nil || len(names) == 0 {
		script.Fatalf("no file is %s: %v", args[0], err)
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		script.Check(err)
		if len(content) > 0 {
			content[len(content)/2] ^= 1
		}
		script.Check(os.WriteFile(name, content, 0o600))
	}
}
