package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"syscall"

	"posthaste/internal/background"
)

// heavyFilters are pages that take a server long.
var heavyFilters = []string{
	"count=1000",
	"count=1000&path=/hook&order=earliestFirst",
	"count=1000&url=https://rare.example.com/hook&host=host-0.example.com",
	"count=1000&url=https://host-0.example.com/hook&state=ERROR&callerIp=10.0.0.7",
	"count=1000&url=https://host-0.example.com/hook&host=host-1.example.com",
}

// readers is how many ask for heavy pages at the same time.
const readers = 4

// RunReaders asks a server for heavy pages of a log, each reader again as soon as it was
// answered, until ctx ends.
func RunReaders(ctx context.Context, host, token string) error {
	err := together(ctx, func(ctx context.Context, spawn func(func() error)) {
		for first := range readers {
			spawn(func() error { return readHeavyPages(ctx, host, token, first) })
		}
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func readHeavyPages(ctx context.Context, host, token string, first int) error {
	var text bytes.Buffer
	for n := first; ; n++ {
		params, err := url.ParseQuery(heavyFilters[n%len(heavyFilters)])
		if err != nil {
			return err
		}
		text.Reset()
		if err := readLog(ctx, host+messageLog, token, mediaJSON, params, &text); err != nil {
			return err
		}
	}
}

// query lets readers ask for heavy pages until it is stopped. They are a process of their
// own, of a lower priority, as if they were elsewhere: what a client takes to receive pages
// is not what the server takes to give them.
func (c *logStore) query(ctx context.Context, l *lab) error {
	var words bytes.Buffer
	command := exec.CommandContext(ctx, l.options.Executable, "bench", "--readers", c.server.host, "--readers-token", l.token)
	command.Env = plainEnvironment(os.Environ())
	command.Stdout, command.Stderr = &words, &words
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = stopPatience
	var err error
	threads := background.Start(1) // whose priority the process inherits
	threads.Do(func() { err = command.Start() })
	threads.Close()
	if err != nil {
		return fmt.Errorf("start readers: %w", err)
	}
	if err = command.Wait(); ctx.Err() == nil {
		return fmt.Errorf("readers: %w: %s", errors.Join(errReadersEnded, err), words.Bytes())
	}
	return nil
}

var errReadersEnded = errors.New("they ended before they were to")
