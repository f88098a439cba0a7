package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

// followers are streams of the log, each with a filter of its own. Those of the labels
// together get every entry once; what the others have to get follows from that.
type followers struct {
	reading sync.WaitGroup
	stop    context.CancelFunc
	arrival chan struct{} // receives after entries have come
	all     []*follower
}

// followed is a filter, and how its entries are told from those of the labels.
type followed struct {
	params string
	labels []int  // an entry has one of these
	state  string // and is in this state; "": in any
}

// followedFilters returns a filter for each label, and then as many of other kinds.
func followedFilters(destination string) (filters []followed) {
	u, err := url.Parse(destination)
	if err != nil {
		panic(err) // it is where messages go
	}
	for n := range followedLabels {
		filters = append(filters, followed{"label=" + labelOf(n), []int{n}, ""})
	}
	for n := range followedLabels {
		label, next := "label="+labelOf(n), (n+1)%followedLabels
		kinds := []followed{
			{label + "&state=DELIVERED", []int{n}, "DELIVERED"},
			{label + "&label=" + labelOf(next) + "&state=CREATED", []int{n, next}, "CREATED"},
			{label + "&url=" + url.QueryEscape(destination), []int{n}, ""},
			{label + "&host=" + u.Host + "&path=" + url.QueryEscape(u.Path) + "&state=ACTIVE", []int{n}, "ACTIVE"},
			{"state=FAILED", nil, "FAILED"},
		}
		filters = append(filters, kinds[n%len(kinds)])
	}
	return filters
}

// followedEntry is an entry as it is remembered.
type followedEntry struct {
	position uint64 // that its mark leads behind
	state    string
}

// follower reads one stream, over one connection after the other.
type follower struct {
	filter  followed
	host    string
	token   string
	arrival chan<- struct{}
	last    []byte // the id to continue after

	mu      sync.Mutex
	entries []followedEntry
	failure error
}

// got returns the entries that have come, and why there will be no more.
func (f *follower) got() ([]followedEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.entries, f.failure
}

func (f *follower) count() int {
	entries, _ := f.got()
	return len(entries)
}

// follow opens all streams and returns when they have begun.
func follow(ctx context.Context, l *lab, c *child, filters []followed) (*followers, error) {
	ctx, stop := context.WithCancel(ctx)
	arrival := make(chan struct{}, 1)
	f := &followers{stop: stop, arrival: arrival}
	for _, filter := range filters {
		one := &follower{filter: filter, host: c.host, token: l.token, arrival: arrival}
		if err := one.connect(ctx, func() bool { return one.last == nil }); err != nil { // to its first mark
			f.close()
			return nil, err
		}
		f.all = append(f.all, one)
	}
	for _, one := range f.all {
		f.reading.Go(func() { one.readOn(ctx) })
	}
	return f, nil
}

// A connection is lost after about this many entries.
const followedAtOnce = 3000

// readOn reads until ctx ends, and continues after the last entry when it has lost the
// connection.
func (f *follower) readOn(ctx context.Context) {
	for ctx.Err() == nil {
		end := f.count() + followedAtOnce + rand.IntN(followedAtOnce)
		if err := f.connect(ctx, func() bool { return f.count() < end }); err != nil && ctx.Err() == nil {
			f.mu.Lock()
			f.failure = err
			f.mu.Unlock()
			return
		}
	}
}

// streamBuffer is how much of a stream is read at once, in bytes: readers are to take
// little of the processor time that they share with what is measured.
const (
	streamBuffer = 64 << 10
	longestLine  = 256 << 20
)

// streams is how followers reach the server.
var streams = &http.Client{Transport: &http.Transport{ReadBufferSize: streamBuffer, DisableCompression: true}}

// connect reads the stream from where it was, while more is wanted.
func (f *follower) connect(ctx context.Context, more func() bool) error {
	r, err := logRequest(ctx, f.host+messageLog, f.filter.params, f.token, mediaEvents)
	if err != nil {
		return err
	}
	if f.last != nil {
		r.Header.Set("Last-Event-ID", string(f.last))
	}
	response, err := streams.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return refusal(response)
	}
	return f.read(response.Body, more)
}

// read takes events from a stream while more is wanted, or to its end. It takes an event
// when it is whole.
func (f *follower) read(stream io.Reader, more func() bool) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, streamBuffer), longestLine)
	var id []byte
	var state string
	for more() && lines.Scan() {
		line := lines.Bytes()
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case len(line) == 0:
			if err := f.take(id, state); err != nil {
				return err
			}
			state = ""
		case string(name) == "id":
			id = append(id[:0], value...)
		case string(name) == "data":
			if state = stateOf(value); state == "" || !f.filter.passes(value) {
				return fmt.Errorf("an entry that does not match: %.500s", value)
			}
		}
	}
	return lines.Err()
}

// take notes where to go on, and the entry, if there was one.
func (f *follower) take(id []byte, state string) error {
	f.last = append(f.last[:0], id...)
	if state == "" {
		return nil
	}
	position, err := strconv.ParseUint(string(bytes.TrimPrefix(id, []byte("p"))), 36, 64)
	if err != nil {
		return fmt.Errorf("the id of an entry is %q", id)
	}
	f.mu.Lock()
	f.entries = append(f.entries, followedEntry{position, state})
	f.mu.Unlock()
	select {
	case f.arrival <- struct{}{}:
	default:
	}
	return nil
}

// stateOf returns the state of an entry, "" if there is none. The entry is not decoded
// for it, which would take more than all else here.
func stateOf(entry []byte) string {
	_, rest, _ := bytes.Cut(entry, []byte(`"state":"`))
	state, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(state)
}

// quotedLabels are the labels as they stand in entries.
var quotedLabels = func() (quoted [followedLabels][]byte) {
	for n := range quoted {
		quoted[n] = []byte(strconv.Quote(labelOf(n)))
	}
	return quoted
}()

// passes reports whether an entry has one of the labels.
func (f followed) passes(entry []byte) bool {
	return slices.ContainsFunc(f.labels, func(n int) bool { return bytes.Contains(entry, quotedLabels[n]) })
}

// drain waits until the followers of the labels have so many entries together, and the
// others what follows from that. It gives up when none has come for as long as patience.
// Then it ends all streams, and requires that each has its entries and no others, once and
// in order.
func (f *followers) drain(ctx context.Context, want int) error {
	if err := f.wait(ctx, f.all[:followedLabels], want); err != nil {
		return err
	}
	for _, one := range f.all[followedLabels:] {
		if err := f.wait(ctx, []*follower{one}, len(f.expected(one.filter))); err != nil {
			return err
		}
	}
	f.close()
	return f.check(want)
}

// wait waits until some followers have so many entries together.
func (f *followers) wait(ctx context.Context, some []*follower, want int) error {
	for {
		sum := 0
		for _, one := range some {
			entries, err := one.got()
			if err != nil {
				return fmt.Errorf("follow %s: %w", one.filter.params, err)
			}
			sum += len(entries)
		}
		if sum >= want {
			return nil
		}
		select {
		case <-f.arrival:
		case <-time.After(patience):
			return fmt.Errorf("followers, the first by %s, got %d entries of %d", some[0].filter.params, sum, want)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// expected returns the entries that pass a filter, of those that the followers of the
// labels have.
func (f *followers) expected(filter followed) (passing []followedEntry) {
	for _, label := range filter.labels {
		entries, _ := f.all[label].got()
		for _, entry := range entries {
			if filter.state == "" || entry.state == filter.state {
				passing = append(passing, entry)
			}
		}
	}
	slices.SortFunc(passing, func(a, b followedEntry) int { return cmp.Compare(a.position, b.position) })
	return passing
}

// check compares what has come with what had to.
func (f *followers) check(want int) error {
	sum := 0
	for n, one := range f.all {
		entries, _ := one.got()
		for i := 1; i < len(entries); i++ {
			if entries[i].position <= entries[i-1].position {
				return fmt.Errorf("follow %s: entry %d came twice, or before an earlier one", one.filter.params, i)
			}
		}
		if n < followedLabels {
			sum += len(entries)
		} else if expected := f.expected(one.filter); !slices.Equal(entries, expected) {
			return fmt.Errorf("follow %s: the %d entries are not the %d that match", one.filter.params, len(entries), len(expected))
		}
	}
	if sum != want {
		return fmt.Errorf("the followers of all labels got %d entries, %d were written", sum, want)
	}
	return nil
}

// close ends the streams and waits until they are not read any more.
func (f *followers) close() {
	f.stop()
	f.reading.Wait()
}
