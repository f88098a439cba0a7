package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var followMessages = flag.Int("follow-messages", 800, "how many messages the follow test publishes")

// TestFollow has twenty followers with different filters while messages are published
// as fast as the server takes them. Each loses its connection again and again and goes
// on by Last-Event-ID; in the end it has every entry that passes its filter once and in
// order, as a naive evaluation of the whole log finds them. For a long run:
//
//	go test -race -run TestFollow -timeout 1h ./e2e -follow-messages=50000
func TestFollow(t *testing.T) {
	t.Parallel()
	random := newRandom(t)
	_, c := startServe(t, t.TempDir(), "--log-level", "warn", "--trusted-proxies", "127.0.0.1/32")
	first, second := newSink(t).host(), newSink(t).host()
	_, port, _ := strings.Cut(first, ":")
	corpus := newCorpus(t, c, first, second, "localhost:"+port)
	streams := openStreams(t, c, followedFilters(corpus.hosts), random)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var reading sync.WaitGroup
	for _, s := range streams {
		reading.Go(func() { s.readOn(ctx) })
	}
	if err := corpus.publish(t.Context(), random, *followMessages); err != nil {
		t.Fatal(err)
	}
	log := corpus.settle(t)
	stop()
	reading.Wait()

	until := log[len(log)-1].Time
	growBeyond(t, c, until)
	wrong, connections := &problems{}, 0
	for _, s := range streams {
		s.readRest(t.Context(), until)
		if s.failure != nil {
			wrong.add("%v, connection %d: %v", s.filter, s.connections, s.failure)
		} else if difference := firstDifference(s.entries, s.filter.apply(log, corpus.messages)); difference != "" {
			wrong.add("%v, after %d connections: %s", s.filter, s.connections, difference)
		}
		connections += s.connections
	}
	wrong.report(t)
	t.Logf("%d entries, %d followers, %d connections", len(log), len(streams), connections)
}

// followedFilters are twenty filters: none, two of each parameter, and two at once.
func followedFilters(hosts []string) []filter {
	one := representatives(slices.Concat(stateFilters(), destinationFilters(hosts), publisherFilters(), laneFilters()))
	return append(one, everything(), one[0].and(publisherFilters()[0]))
}

// growBeyond makes the log grow beyond a time, in Unix milliseconds.
func growBeyond(t *testing.T, c *client, ms int64) {
	t.Helper()
	for time.Now().UnixMilli() <= ms {
		time.Sleep(time.Millisecond)
	}
	if _, err := c.publish(t.Context(), "http://127.0.0.1:1/later", map[string]string{"Upstash-Delay": "1h"}, ""); err != nil {
		t.Fatal(err)
	}
}

// stream is a follower of the log, over one connection after the other. It is for one
// goroutine.
type stream struct {
	client *client
	filter filter
	random *rand.Rand

	last        string // the id to go on behind
	entries     []logEntry
	connections int
	failure     error // why it has stopped, unless it was told to
}

// openStreams lets followers begin, before anything is published.
func openStreams(t *testing.T, c *client, filters []filter, random *rand.Rand) (streams []*stream) {
	t.Helper()
	for _, f := range filters {
		s := &stream{client: c, filter: f, random: rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))}
		s.read(t.Context(), nil, func() bool { return s.last == "" })
		if s.failure != nil {
			t.Fatalf("%v: %v", f, s.failure)
		}
		streams = append(streams, s)
	}
	return streams
}

// readOn reads until ctx ends, over connections of which the first ones are lost at a
// random moment or entry.
func (s *stream) readOn(ctx context.Context) {
	const losses, longestLife, mostEntries = 12, 700, 300 // ms
	for range losses {
		life, lose := context.WithTimeout(ctx, time.Duration(1+s.random.IntN(longestLife))*time.Millisecond)
		most := len(s.entries) + 1 + s.random.IntN(mostEntries)
		s.read(life, nil, func() bool { return len(s.entries) < most })
		lose()
		if s.failure != nil {
			return
		}
	}
	s.read(ctx, nil, func() bool { return true })
}

// readRest reads the entries up to a time that is over, in Unix milliseconds, to the
// end that the server gives the stream.
func (s *stream) readRest(ctx context.Context, until int64) {
	if s.failure != nil {
		return
	}
	s.read(ctx, []string{strconv.FormatInt(until, 10)}, func() bool { return true })
	if errors.Is(s.failure, io.EOF) {
		s.failure = nil
	}
}

// read connects and reads while more is wanted and ctx goes on.
func (s *stream) read(ctx context.Context, toDate []string, more func() bool) {
	s.connections++
	response, err := s.connect(ctx, toDate)
	if err == nil {
		defer response.Body.Close()
		for lines := bufio.NewReader(response.Body); err == nil && more(); {
			err = s.take(lines)
		}
	}
	if ctx.Err() == nil {
		s.failure = err
	}
}

func (s *stream) connect(ctx context.Context, toDate []string) (*http.Response, error) {
	query := cloneValues(s.filter.query)
	if toDate != nil {
		query["toDate"] = toDate
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.client.base+"/v2/logs?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.client.token)
	request.Header.Set("Accept", "text/event-stream")
	if s.last != "" {
		request.Header.Set("Last-Event-ID", s.last)
	}
	response, err := s.client.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusNoContent {
		return response, nil // its body is at its end, as is the stream
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return nil, &statusError{response.StatusCode, string(text)}
	}
	return response, nil
}

// take reads up to the next empty line: an entry with its id, or an id alone.
func (s *stream) take(lines *bufio.Reader) error {
	var id, data string
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			id = value
		case "data":
			data = value
		case "":
			if value == "" {
				return s.note(id, data)
			}
		default:
			return fmt.Errorf("the stream has a line %q", line)
		}
	}
}

func (s *stream) note(id, data string) error {
	if id == "" {
		return fmt.Errorf("the stream has %q without an id", data)
	}
	s.last = id
	if data == "" {
		return nil
	}
	var entry logEntry
	if err := json.Unmarshal([]byte(data), &entry); err != nil {
		return fmt.Errorf("the stream has the entry %q: %w", data, err)
	}
	s.entries = append(s.entries, entry)
	return nil
}
