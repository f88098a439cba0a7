package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"posthaste/internal/store/postgres/pgtest"
)

// program is something to be measured, and how to start it.
type program struct {
	name string
	args func(listen, data string) []string
}

// child is a program that runs.
type child struct {
	name    string
	host    string // the address it listens on
	command *exec.Cmd
	stop    context.CancelFunc // asks it to end
	exited  chan struct{}      // closed when it has ended
	output  string             // path of what it wrote

	readyAfter time.Duration // from its start
}

const (
	readyPatience = 2 * time.Minute      // for a program to be ready
	readyPause    = 2 * time.Millisecond // between two looks
	stopPatience  = 30 * time.Second     // for a program to end before it is killed
)

// dataDir is where a program keeps its data, within its directory.
const dataDir = "data"

// spawn starts a program on a free port and returns when it says that it is
// ready. Its directory holds its data and its output. It ends with ctx.
func spawn(ctx context.Context, executable string, p program, dir string) (*child, error) {
	port, err := pgtest.FreePorts(1)
	if err != nil {
		return nil, err
	}
	host := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	c := &child{name: p.name, host: host, exited: make(chan struct{}), output: filepath.Join(dir, p.name+".log")}
	began := time.Now()
	if err := c.start(ctx, executable, p.args(host, filepath.Join(dir, dataDir))); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	if err := c.ready(ctx); err != nil {
		c.kill()
		return nil, fmt.Errorf("start %s: %w%s", p.name, err, c.lastWords())
	}
	c.readyAfter = time.Since(began)
	return c, nil
}

func (c *child) start(parent context.Context, executable string, args []string) error {
	output, err := os.OpenFile(c.output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }() // the program has its own handle
	ctx, stop := context.WithCancel(parent)
	c.stop = stop
	c.command = exec.CommandContext(ctx, executable, args...)
	c.command.Env = plainEnvironment(os.Environ())
	c.command.Stdout, c.command.Stderr = output, output
	c.command.Cancel = func() error { return c.command.Process.Signal(syscall.SIGTERM) }
	c.command.WaitDelay = stopPatience
	if err := c.command.Start(); err != nil {
		stop()
		return err
	}
	go func() {
		defer stop()
		_ = c.command.Wait() // ProcessState tells
		close(c.exited)
	}()
	return nil
}

// plainEnvironment leaves out our own settings: what is measured is the program
// with its defaults, and not how long it takes to stop.
func plainEnvironment(environment []string) []string {
	var plain []string
	for _, setting := range environment {
		if !strings.HasPrefix(setting, "POSTHASTE_") {
			plain = append(plain, setting)
		}
	}
	return append(plain, "POSTHASTE_SHUTDOWN_LEAD=0s") // no load balancer has to notice its end
}

var errExited = errors.New("it ended before it was ready")

// ready waits until GET /readyz is answered 200.
func (c *child) ready(parent context.Context) error {
	ctx, cancel := context.WithTimeout(parent, readyPatience)
	defer cancel()
	for !c.answersReady(ctx) {
		select {
		case <-c.exited:
			return errExited
		case <-ctx.Done():
			return fmt.Errorf("wait until it is ready: %w", ctx.Err())
		case <-time.After(readyPause):
		}
	}
	return nil
}

func (c *child) answersReady(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.host+"/readyz", nil)
	if err != nil {
		return false
	}
	req.Close = true // no idle connection is to wake the program later
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// end asks the program to end and waits for it. A program that ends with a
// failure is an error.
func (c *child) end() error {
	c.stop()
	<-c.exited
	if !c.command.ProcessState.Success() {
		return fmt.Errorf("%s did not end well: %s%s", c.name, c.command.ProcessState, c.lastWords())
	}
	return nil
}

// kill ends the program at once, as a crash would. It is harmless when the program
// has ended.
func (c *child) kill() {
	_ = c.command.Process.Kill() // fails only if it has ended
	<-c.exited
}

// processorTime returns what a program that has ended used in its life.
func (c *child) processorTime() time.Duration {
	return c.command.ProcessState.UserTime() + c.command.ProcessState.SystemTime()
}

// lastWords quotes the end of what the program wrote.
func (c *child) lastWords() string {
	const quoted = 2000 // bytes
	text, err := os.ReadFile(c.output)
	if err != nil || len(text) == 0 {
		return ""
	}
	return "; it wrote:\n" + string(text[max(0, len(text)-quoted):])
}
