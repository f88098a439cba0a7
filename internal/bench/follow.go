package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// followScenario compares Posthaste with itself: a server whose log nobody reads, and
// one whose log has followers, each with a filter of its own. Both take the same load
// in turn, as fast as its clients are answered.
type followScenario struct{}

func (followScenario) name() string { return "follow" }

const (
	followers        = 20
	entriesDelivered = 3 // of a message: created, active, delivered
)

func (s followScenario) run(ctx context.Context, l *lab) ([]Result, error) {
	unread := &followSide{condition: condition{name: "unread"}}
	followed := &followSide{condition: condition{name: "followed"}, followers: followers}
	sides := []*followSide{unread, followed}
	for _, side := range sides {
		defer side.close()
		if err := side.open(ctx, l); err != nil {
			return nil, err
		}
	}
	for number := range l.options.Rounds {
		l.note("%s, round %d of %d", s.name(), number+1, l.options.Rounds)
		for _, side := range sides {
			if err := side.round(ctx, l); err != nil {
				return nil, err
			}
		}
	}
	for _, side := range sides {
		if err := side.end(); err != nil {
			return nil, err
		}
	}
	return []Result{{
		Scenario: s.name(),
		Baseline: unread.name,
		Subject:  followed.name,
		Measures: compare(unread.rounds, followed.rounds),
	}}, nil
}

// followSide is a server with or without followers.
type followSide struct {
	condition
	followers int
	messages  int // that it has taken so far
}

// round applies the load after a warm-up. Followers have to get every entry of both.
func (c *followSide) round(ctx context.Context, l *lab) error {
	f, err := follow(ctx, l, c.server, c.followers)
	if err != nil {
		return fmt.Errorf("follow the log: %w%s", err, c.server.lastWords())
	}
	defer f.close()
	work := labelledLoop{closedLoop{l.options.Clients, l.options.extent()}, followers}
	warm, book, err := l.warmUpAndDeliver(ctx, c.server, work)
	if err != nil {
		return err
	}
	c.add(l, book)
	messages := warm.tally().accepted + book.tally().accepted
	c.messages += messages
	if c.followers == 0 {
		return nil
	}
	return f.drain(ctx, entriesDelivered*messages)
}

// end ends the server, by which it is known what processor time it took.
func (c *followSide) end() error {
	if err := c.server.end(); err != nil {
		return err
	}
	spent := c.server.processorTime().Seconds()
	c.rounds = append(c.rounds, []reading{measured("processor time", "s/1000", spent/(float64(c.messages)/1000))})
	return nil
}

// labelledLoop is a closedLoop whose clients take turns in labelling all that they
// publish: the first label 0, the next label 1, and so on.
type labelledLoop struct {
	closedLoop
	labels int
}

func (o labelledLoop) warmUp() load {
	return labelledLoop{closedLoop{o.clients, o.extent.warmUp()}, o.labels}
}

func (o labelledLoop) apply(ctx context.Context, to address, book *ledger) error {
	more := o.meter()
	return together(ctx, func(ctx context.Context, spawn func(func() error)) {
		for n := range o.clients {
			own := to
			own.label = labelOf(n % o.labels)
			spawn(func() error { return publishWhile(ctx, more, own, book) })
		}
	})
}

func labelOf(n int) string { return fmt.Sprint("label-", n) }

// following are streams of the log, one for each label, and what they brought.
type following struct {
	reading sync.WaitGroup
	stop    context.CancelFunc
	arrival chan struct{} // receives after entries have come
	entries atomic.Int64
}

// follow opens streams of as many labels and returns when all of them have begun.
func follow(ctx context.Context, l *lab, c *child, labels int) (*following, error) {
	ctx, stop := context.WithCancel(ctx)
	f := &following{stop: stop, arrival: make(chan struct{}, 1)}
	for n := range labels {
		response, err := openStream(ctx, c.host, l.token, labelOf(n))
		if err != nil {
			f.close()
			return nil, err
		}
		f.reading.Go(func() {
			defer response.Body.Close()
			f.count(response.Body)
		})
	}
	return f, nil
}

// streamBuffer is how much of a stream is read at once, in bytes: readers are to take
// little of the processor time that they share with what is measured.
const streamBuffer = 64 << 10

// streams is how followers reach the server.
var streams = &http.Client{Transport: &http.Transport{ReadBufferSize: streamBuffer, DisableCompression: true}}

// openStream asks for the entries with a label from now on.
func openStream(ctx context.Context, host, token, label string) (*http.Response, error) {
	target := "http://" + host + "/v2/logs?label=" + url.QueryEscape(label)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "text/event-stream")
	response, err := streams.Do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, refusal(response)
	}
	return response, nil
}

// count counts entries until the stream ends.
func (f *following) count(stream io.Reader) {
	lines := bufio.NewReaderSize(stream, streamBuffer)
	for begun := true; ; {
		line, err := lines.ReadSlice('\n')
		if begun && bytes.HasPrefix(line, []byte("data:")) {
			f.entries.Add(1)
			select {
			case f.arrival <- struct{}{}:
			default:
			}
		}
		begun = err == nil // else the line goes on
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// drain waits until so many entries have come. It gives up when none has come for as
// long as patience.
func (f *following) drain(ctx context.Context, want int) error {
	for f.entries.Load() < int64(want) {
		select {
		case <-f.arrival:
		case <-time.After(patience):
			return fmt.Errorf("the followers got %d entries of %d", f.entries.Load(), want)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// close ends the streams and waits until they are not read any more.
func (f *following) close() {
	f.stop()
	f.reading.Wait()
}
