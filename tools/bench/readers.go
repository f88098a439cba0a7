package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"time"
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
// answered, until ctx or its input ends. It writes a line when the first page has come.
func RunReaders(ctx context.Context, host, token string, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, in) // it ends with who has started this
	}()
	begun := sync.OnceFunc(func() { _, _ = io.WriteString(out, "reading\n") })
	err := together(ctx, func(ctx context.Context, spawn func(func() error)) {
		for first := range readers {
			spawn(func() error { return readHeavyPages(ctx, host, token, first, begun) })
		}
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func readHeavyPages(ctx context.Context, host, token string, first int, begun func()) error {
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
		begun()
	}
}

// readSoFar is how many entries a server has given to readers, in which time, and what it
// has allocated and collected meanwhile.
type readSoFar struct {
	entries     float64
	allocated   float64 // bytes
	collections float64
	time        time.Duration
}

// add adds what the metrics of a server say of a while.
func (r *readSoFar) add(before, after map[string]float64, while time.Duration) {
	r.entries += after[metricReturned] - before[metricReturned]
	r.allocated += after[metricAllocated] - before[metricAllocated]
	r.collections += after[metricCollections] - before[metricCollections]
	r.time += while
}

func (r *readSoFar) readings() []reading {
	return []reading{
		measured("read by queries meanwhile", "entries/s", r.entries/r.time.Seconds()),
		measured("allocated meanwhile", "B/entry", r.allocated/max(r.entries, 1)),
		measured("garbage collected meanwhile", "times/s", r.collections/r.time.Seconds()),
	}
}

// query lets readers ask for heavy pages until it is ended. They run as a low-priority
// process of their own: receiving the pages should not slow down deliveries, nor this process.
func (c *logStore) query(ctx context.Context, l *lab, read *readSoFar) (end func() error, err error) {
	var words bytes.Buffer
	command := exec.CommandContext(ctx, "nice", "-n", "5", l.options.Self, "--readers", c.server.host, "--readers-token", l.token)
	command.Env, command.Stderr = plainEnvironment(os.Environ()), &words
	in, inErr := command.StdinPipe()
	out, outErr := command.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	if err = command.Start(); err != nil {
		return nil, fmt.Errorf("start readers: %w", err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("readers: %w: %s", errors.Join(err, command.Wait()), words.Bytes())
	}
	began := time.Now()
	before, err := scrape(ctx, c.server)
	if err != nil {
		return nil, errors.Join(err, in.Close(), command.Wait())
	}
	return func() error {
		after, wrong := scrape(ctx, c.server)
		read.add(before, after, time.Since(began))
		if err := errors.Join(wrong, in.Close(), command.Wait()); err != nil {
			return fmt.Errorf("readers: %w: %s", err, words.Bytes())
		}
		return nil
	}, nil
}
