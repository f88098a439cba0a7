package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"posthaste"
)

// delayScenario measures how long an entry of the log takes to a thousand followers of one log,
// each with a filter of its own: those of an earlier build or, where none is given, ten of the same
// build. Messages come at a fixed rate.
type delayScenario struct{}

func (delayScenario) name() string { return "delay" }

const (
	manyFollowers = 1000
	fewFollowers  = 10
	delayKinds    = 5 // of filters, for each label
)

func (s delayScenario) run(ctx context.Context, l *lab) ([]Result, error) {
	baseline := delaySide{l.server("--max-connections", "8000"), fewFollowers, fmt.Sprint(fewFollowers, " followers")}
	subject := delaySide{baseline.program, manyFollowers, fmt.Sprint(manyFollowers, " followers")}
	if l.options.Before != "" {
		baseline = delaySide{program{beforeName, baseline.args}, manyFollowers, beforeName}
	}
	sides := [2]delaySide{baseline, subject}
	var rounds [2][][]reading
	for number := range l.options.Rounds {
		l.note("%s, round %d of %d", s.name(), number+1, l.options.Rounds)
		for i, side := range sides {
			readings, err := side.round(ctx, l)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", side.name, err)
			}
			rounds[i] = append(rounds[i], readings)
		}
	}
	return []Result{{
		Scenario: s.name(), Baseline: baseline.name, Subject: subject.name,
		Measures: compare(rounds[0], rounds[1]),
	}}, nil
}

// delaySide is a program whose log has followers.
type delaySide struct {
	program
	followers int
	name      string
}

// round follows the log of a new server, applies the load and waits until every follower has what
// its filter lets pass.
func (d delaySide) round(parent context.Context, l *lab) (readings []reading, err error) {
	ctx, stop := context.WithCancel(parent)
	defer stop()
	dir, err := l.place()
	if err != nil {
		return nil, err
	}
	c, err := l.start(ctx, d.program, dir)
	if err != nil {
		return nil, err
	}
	defer c.kill()
	arrivals := &arrivals{more: make(chan struct{}, 1)}
	reading := sync.WaitGroup{}
	defer reading.Wait()
	defer stop()
	for n := range d.followers {
		stream, err := openStream(ctx, l, c, delayFilter(n, l.sink.url()))
		if err != nil {
			return nil, fmt.Errorf("%w%s", err, c.lastWords())
		}
		reading.Go(func() { arrivals.readOn(ctx, stream) })
	}
	work := spreadLoop{openLoop{l.options.Rate, l.options.extent()}, d.followers / delayKinds}
	if _, _, err := d.apply(ctx, l, c, work.warmUp(), arrivals); err != nil {
		return nil, err
	}
	before, _ := processorTime(c.command.Process.Pid)
	sent, delays, err := d.apply(ctx, l, c, work, arrivals)
	if err != nil {
		return nil, err
	}
	after, _ := processorTime(c.command.Process.Pid)
	memory := c.memory()
	stop()
	reading.Wait()
	slices.Sort(delays)
	return append(memory,
		counted("accepted", sent.accepted),
		measured("delivered, p50", "ms", milliseconds(quantile(sent.delivering, 0.50))),
		measured("delivered, p99", "ms", milliseconds(quantile(sent.delivering, 0.99))),
		measured("delay of an entry, p50", "ms", milliseconds(quantile(delays, 0.50))),
		measured("delay of an entry, p99", "ms", milliseconds(quantile(delays, 0.99))),
		measured("delay of an entry, max", "ms", milliseconds(quantile(delays, 1))),
		measured("processor time", "s/1000", (after-before).Seconds()/float64(sent.accepted)*1000),
	), nil
}

// apply applies a load and returns what became of its messages, and how long their entries took.
func (d delaySide) apply(ctx context.Context, l *lab, c *child, work load, arrivals *arrivals) (sent tally, delays []time.Duration, err error) {
	book, err := l.deliver(ctx, c, work)
	if err != nil {
		return sent, nil, err
	}
	// A label has a follower of all, one by URL and one by method, who get three entries of a
	// message, and two by state, who get one.
	sent = book.tally()
	delays, err = arrivals.wait(ctx, sent.accepted*(3*entriesDelivered+2))
	return sent, delays, err
}

// delayFilter is the filter of the nth follower.
func delayFilter(n int, destination string) string {
	return "label=" + labelOf(n/delayKinds) + [delayKinds]string{
		"", "&state=CREATED", "&state=DELIVERED", "&url=" + url.QueryEscape(destination), "&method=POST",
	}[n%delayKinds]
}

// spreadLoop is an openLoop whose messages have the labels in turn.
type spreadLoop struct {
	openLoop
	labels int
}

func (o spreadLoop) warmUp() load {
	return spreadLoop{openLoop{o.rate, o.extent.warmUp()}, o.labels}
}

func (o spreadLoop) apply(ctx context.Context, to address, book *account) error {
	interval := time.Second / time.Duration(o.rate)
	return together(ctx, func(ctx context.Context, spawn func(func() error)) {
		pools := make([]*pool, o.labels)
		for n := range pools {
			own := to
			own.label = labelOf(n)
			pools[n] = &pool{to: own}
		}
		start := time.Now()
		for number := range o.count(o.rate) {
			if !sleep(ctx, time.Until(start.Add(time.Duration(number)*interval))) {
				return
			}
			spawn(func() error { return pools[number%o.labels].publish(ctx, book) })
		}
	})
}

// openStream returns a stream of the log that has begun: its first mark is read.
func openStream(ctx context.Context, l *lab, c *child, filter string) (*bufio.Scanner, error) {
	r, err := logRequest(ctx, c.host+messageLog, filter, l.token, mediaEvents)
	if err != nil {
		return nil, err
	}
	response, err := streams.Do(r) // its body is closed with ctx
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, refusal(response)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			return lines, nil
		}
	}
	return nil, fmt.Errorf("a stream ended before it began: %w", lines.Err())
}

// arrivals are how long entries took from the times that they have to their followers.
type arrivals struct {
	more    chan struct{} // receives after one has come
	mu      sync.Mutex
	delays  []time.Duration
	failure error
}

// readOn reads a stream to its end. The id of an entry is the position behind it, that of the last.
func (a *arrivals) readOn(ctx context.Context, stream *bufio.Scanner) {
	var last, position uint64
	for stream.Scan() {
		line := stream.Bytes()
		if id, found := bytes.CutPrefix(line, []byte("id: p")); found {
			position, _ = strconv.ParseUint(string(id), 36, 64) // 0 comes before the last
		}
		if !bytes.HasPrefix(line, []byte("data: ")) {
			continue
		}
		if position <= last {
			a.take(0, fmt.Errorf("position %d came after %d", position, last))
			return
		}
		last = position
		a.take(time.Since(posthaste.Position(position-1).Time()), nil)
	}
	if ctx.Err() == nil {
		a.take(0, fmt.Errorf("a stream has ended: %w", stream.Err()))
	}
}

func (a *arrivals) take(delay time.Duration, failure error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if failure != nil {
		a.failure = failure
	} else {
		a.delays = append(a.delays, delay)
	}
	select {
	case a.more <- struct{}{}:
	default:
	}
}

// wait returns the delays of as many entries as have to come, and forgets them.
func (a *arrivals) wait(ctx context.Context, want int) ([]time.Duration, error) {
	for {
		a.mu.Lock()
		delays, failure := a.delays, a.failure
		if len(delays) == want {
			a.delays = nil
		}
		a.mu.Unlock()
		switch {
		case failure != nil:
			return nil, failure
		case len(delays) == want:
			return delays, nil
		case len(delays) > want:
			return nil, fmt.Errorf("followers got %d entries, %d were written for them", len(delays), want)
		}
		select {
		case <-a.more:
		case <-time.After(patience):
			return nil, fmt.Errorf("followers got %d entries of %d", len(delays), want)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
