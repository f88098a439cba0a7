package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/api"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// Watch makes a fakeStore an eventlog.Source whose log ends with the entries of
// logFake and does not grow.
func (fakeStore) Watch(context.Context, string) (posthaste.Position, <-chan struct{}, error) {
	return posthaste.LastPosition(createdAt.Add(9 * time.Millisecond)), make(chan struct{}), nil
}

func (fakeStore) Counts(context.Context, string, time.Time, time.Time, func(*store.Count)) error {
	return errors.ErrUnsupported
}

// A fakeLog has nothing but pages.
func (fakeLog) Stats(context.Context, string, *eventlog.StatsQuery) (*eventlog.Stats, error) {
	return nil, errors.ErrUnsupported
}

func (fakeLog) Export(context.Context, string, store.EventQuery) (*eventlog.Export, error) {
	return nil, errors.ErrUnsupported
}

func (fakeLog) Follow(context.Context, string, store.EventQuery, bool) (*eventlog.Follower, error) {
	return nil, errors.ErrUnsupported
}

// pipes is a network within a synctest bubble.
type pipes struct {
	accepting chan net.Conn
	closed    chan struct{}
	close     func()
}

func newPipes() *pipes {
	p := &pipes{accepting: make(chan net.Conn), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepting:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.accepting <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// reader asks for logs over connections that have the deadlines of a real server.
type reader struct {
	*testing.T
	http *http.Client
}

// read lets a reader at a handler, within a synctest bubble.
func read(t *testing.T, handler http.Handler, test func(r *reader)) {
	network := newPipes()
	server := &http.Server{Handler: handler, ReadTimeout: time.Minute, WriteTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	served := make(chan error)
	go func() { served <- server.Serve(network) }()
	transport := &http.Transport{DialContext: network.dial, DisableKeepAlives: true, DisableCompression: true}
	defer func() {
		_ = server.Close()
		<-served
	}()
	test(&reader{T: t, http: &http.Client{Transport: transport}})
}

// ask sends a request and returns the answer, which has to be a 200.
func (r *reader) ask(ctx context.Context, path, accept, last string) *http.Response {
	r.Helper()
	response := r.send(ctx, path, accept, last)
	if media := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || media != accept {
		r.Fatalf("%s: %s, %s, want 200 and %s", path, response.Status, media, accept)
	}
	return response
}

// send sends a request and returns the answer, whatever it is.
func (r *reader) send(ctx context.Context, path, accept, last string) *http.Response {
	r.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://pipe"+path, nil)
	if err != nil {
		r.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer full")
	request.Header.Set("Accept", accept)
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	response, err := r.http.Do(request)
	if err != nil {
		r.Fatal(err)
	}
	return response
}

// wantNothing requires the answer by which a client knows not to ask again.
func (r *reader) wantNothing(path, last string) {
	r.Helper()
	response := r.send(r.Context(), path, "text/event-stream", last)
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		r.Errorf("%s behind %s: %s, want 204", path, last, response.Status)
	}
}

// events is a stream of events.
type events struct {
	*reader
	response *http.Response
	lines    *bufio.Reader
	last     string // the last id that was read
}

// follow begins to follow the log.
func (r *reader) follow(path, last string) *events {
	r.Helper()
	response := r.ask(r.Context(), path, "text/event-stream", last)
	return &events{reader: r, response: response, lines: bufio.NewReader(response.Body), last: last}
}

// close ends the stream, from the reader's side.
func (e *events) close() { e.response.Body.Close() }

// block reads what stands before the next empty line, and notes the id.
func (e *events) block() (data string, err error) {
	for {
		line, err := e.lines.ReadString('\n')
		if err != nil {
			return "", err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "":
			if value == "" {
				return data, nil
			}
		case "id":
			e.last = value
		case "data":
			data = value
		default:
			return "", fmt.Errorf("a line %q", line)
		}
	}
}

// next returns the next entry, passing over signs of life.
func (e *events) next() (entry string, err error) {
	for entry == "" && err == nil {
		entry, err = e.block()
	}
	return entry, err
}

// take returns the next n entries.
func (e *events) take(n int) (entries []string) {
	e.Helper()
	for range n {
		entry, err := e.next()
		if err != nil {
			e.Fatalf("after %d of %d entries: %v", len(entries), n, err)
		}
		entries = append(entries, entry)
	}
	return entries
}

// rest returns the entries to the end of the stream, which must be an orderly one.
func (e *events) rest() (entries []string) {
	e.Helper()
	for {
		entry, err := e.next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			e.Fatal(err)
		}
		entries = append(entries, entry)
	}
}

// pages returns the entries that a path leads to, page by page, as they are
// written there.
func (w *world) pages(path string) (entries []string) {
	w.Helper()
	cursor := ""
	for {
		var page struct {
			Events []json.RawMessage
			Cursor string
		}
		w.do(http.MethodGet, path+cursor, "", &page)
		for _, entry := range page.Events {
			entries = append(entries, string(entry))
		}
		if page.Cursor == "" {
			return entries
		}
		cursor = "&cursor=" + page.Cursor
	}
}

const earliest = "/v2/logs?order=earliestFirst"

// publish has messages published by batches and lets what follows happen.
func (w *world) publish(items ...string) {
	w.Helper()
	for batch := range slices.Chunk(items, 10) {
		w.do(http.MethodPost, "/v2/batch", "["+strings.Join(batch, ",")+"]", nil)
	}
}

// publishMany publishes n messages, each of which makes three entries.
func (w *world) publishMany(n int) {
	w.Helper()
	w.publish(slices.Repeat([]string{`{"destination":"https://a.example/x"}`}, n)...)
	time.Sleep(time.Minute)
	w.destinations.take()
}

func (w *world) same(what string, want, got []string) {
	w.Helper()
	if !slices.Equal(want, got) {
		w.Errorf("%s: %d entries, want %d (-want +got):\n%s", what, len(got), len(want),
			cmp.Diff(want[:min(20, len(want))], got[:min(20, len(got))]))
	}
}

// TestFollow reads the life of a message as it happens.
func TestFollow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.publishMany(1)
		before := len(w.pages(earliest))
		read(w.T, w.handler, func(r *reader) {
			e := r.follow("/v2/logs", "")
			defer e.close()
			mark, err := e.block()
			if err != nil || mark != "" || e.last == "" {
				r.Fatalf("a stream begins with data %q and id %q, %v, want an id alone", mark, e.last, err)
			}
			w.publishMany(1)
			got := e.take(3)
			w.same("entries", w.pages(earliest)[before:], got)
		})
	})
}

// TestFollowEvents has the legacy path send what it shows (contract, U-45).
func TestFollowEvents(t *testing.T) {
	inWorld(t, func(w *world) {
		w.publish(`{"destination":"https://a.example/x","headers":{"Upstash-Delay":"1h","Upstash-Label":"c"}}`)
		w.do(http.MethodDelete, "/v2/messages?label=c", "", nil)
		read(w.T, w.handler, func(r *reader) {
			e := r.follow("/v2/events?fromDate=0&state=cancelled", "")
			defer e.close()
			got := e.take(1)
			w.same("entries", w.pages("/v2/events?state=CANCELLED"), got)
			if !strings.Contains(got[0], `"CANCELED"`) {
				t.Errorf("the entry is %s, want the state as SDKs spell it", got[0])
			}
		})
	})
}

// TestFollowOutlivesDeadlines listens for longer than an answer may take, and
// lives on signs of life.
func TestFollowOutlivesDeadlines(t *testing.T) {
	inWorld(t, func(w *world) {
		read(w.T, w.handler, func(r *reader) {
			e := r.follow("/v2/logs", "")
			defer e.close()
			begun := time.Now()
			for time.Since(begun) < time.Hour {
				if data, err := e.block(); data != "" || err != nil {
					t.Fatalf("after %s: %q, %v, want a sign of life", time.Since(begun), data, err)
				}
			}
			w.publishMany(1)
			w.same("entries", w.pages(earliest), e.take(3))
		})
	})
}

// TestFollowReconnects loses its connection again and again while messages are
// published, and each time goes on behind the last id.
func TestFollowReconnects(t *testing.T) {
	inWorld(t, func(w *world) {
		random := rand.New(rand.NewPCG(1, 2))
		const messages = 400
		var writing sync.WaitGroup
		var got []string
		read(w.T, w.handler, func(r *reader) {
			e := r.follow("/v2/logs", "")
			if _, err := e.block(); err != nil {
				t.Fatal(err)
			}
			writing.Go(func() {
				for range messages / 10 {
					w.publishMany(10)
				}
			})
			for lives := 0; len(got) < 3*messages; lives++ {
				e.close()
				e = r.follow("/v2/logs", e.last)
				got = append(got, e.take(min(random.IntN(40), 3*messages-len(got)))...)
				time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
			}
			e.close()
		})
		writing.Wait()
		w.same("entries", w.pages(earliest), got)
	})
}

// question is a filter, as parameters and as a person would apply it.
type question struct {
	params string
	passes func(entry map[string]any) bool
}

// questions are twenty different filters.
func questions() (all []question) {
	is := func(name string, values ...string) func(map[string]any) bool {
		return func(entry map[string]any) bool {
			text, _ := entry[name].(string)
			return slices.Contains(values, text)
		}
	}
	all = append(all,
		question{"", func(map[string]any) bool { return true }},
		question{"state=IN_PROGRESS", is("state", "ACTIVE", "RETRY", "ERROR")},
		question{"state=created&state=FAILED", is("state", "CREATED", "FAILED")},
		question{"queueName=q", is("queueName", "q")},
		question{"host=b.example", func(entry map[string]any) bool {
			return strings.HasPrefix(entry["url"].(string), "https://b.example/")
		}},
		question{"path=/nowhere", func(map[string]any) bool { return false }},
	)
	for _, state := range posthaste.States {
		all = append(all, question{"state=" + string(state), is("state", string(state))})
	}
	for _, label := range []string{"l0", "l1", "l2"} {
		labelled := is("label", label)
		failed := is("state", "ERROR")
		all = append(all,
			question{"label=" + label, labelled},
			question{"state=ERROR&label=" + label, func(e map[string]any) bool { return labelled(e) && failed(e) }})
	}
	return all
}

// corpus are messages of many kinds.
func corpus(n int) (items []string) {
	for i := range n {
		path := []string{"https://a.example/ok", "https://b.example/ok", "https://b.example/fail/500"}[i%3]
		queue := ""
		if i%4 == 0 {
			queue = `,"queue":"q"`
		}
		items = append(items, fmt.Sprintf(
			`{"destination":"%s","headers":{"Upstash-Label":"l%d","Upstash-Retries":"1"}%s}`, path, i%5, queue))
	}
	return items
}

// TestFollowers has twenty readers with different filters follow what is published,
// and compares what they get with a naive evaluation.
func TestFollowers(t *testing.T) {
	inWorld(t, func(w *world) {
		asked := questions()
		if len(asked) != 20 {
			t.Fatalf("%d questions", len(asked))
		}
		got := make([][]string, len(asked))
		read(w.T, w.handler, func(r *reader) {
			var reading sync.WaitGroup
			var streams []*events
			for i, q := range asked {
				e := r.follow("/v2/logs?fromDate=0&"+q.params, "")
				streams = append(streams, e)
				reading.Go(func() {
					for {
						entry, err := e.next()
						if err != nil {
							return // closed below
						}
						got[i] = append(got[i], entry)
					}
				})
			}
			for _, item := range corpus(120) {
				w.publish(item)
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(time.Hour) // for retries
			synctest.Wait()
			for _, e := range streams {
				e.close()
			}
			reading.Wait()
		})
		log := w.pages(earliest)
		for i, q := range asked {
			w.same(q.params, naive(t, log, q), got[i])
		}
	})
}

// naive applies a question to a whole log.
func naive(t *testing.T, log []string, q question) (matching []string) {
	t.Helper()
	for _, text := range log {
		var entry map[string]any
		if err := json.Unmarshal([]byte(text), &entry); err != nil {
			t.Fatal(err)
		}
		if q.passes(entry) {
			matching = append(matching, text)
		}
	}
	return matching
}

// TestFollowSlowly has a reader that takes nothing for a while. Nobody else is held
// up, and it misses nothing; if it takes too long, it finds out and goes on later.
func TestFollowSlowly(t *testing.T) {
	const messages = 300
	for name, pause := range map[string]time.Duration{"within patience": 5 * time.Minute, "beyond patience": 30 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				read(w.T, w.handler, func(r *reader) {
					slow := r.follow("/v2/logs?fromDate=0", "")
					other := r.follow("/v2/logs?fromDate=0", "")
					defer other.close()
					w.publishMany(messages)
					log := w.pages(earliest)
					w.same("of another reader", log, other.take(3*messages))

					time.Sleep(pause)
					got := slow.takeAsMany(3 * messages)
					if cutOff := len(got) < 3*messages; cutOff != (pause > 10*time.Minute) {
						t.Errorf("got %d entries of %d after %s", len(got), 3*messages, pause)
					}
					slow.close()
					again := r.follow("/v2/logs?fromDate=0", slow.last)
					defer again.close()
					got = append(got, again.take(3*messages-len(got))...)
					w.same("of the slow reader", log, got)
				})
			})
		})
	}
}

// takeAsMany returns the next n entries, or those that come before the connection
// is lost.
func (e *events) takeAsMany(n int) (entries []string) {
	for range n {
		entry, err := e.next()
		if err != nil {
			break
		}
		entries = append(entries, entry)
	}
	return entries
}

func TestFollowEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.publishMany(20)
		log := w.pages(earliest)
		read(w.T, w.handler, func(r *reader) {
			counted := r.follow("/v2/logs?fromDate=0&count=50", "")
			w.same("to the middle of the count", log[:20], counted.take(20))
			counted.close()
			counted = r.follow("/v2/logs?fromDate=0&count=50", counted.last)
			w.same("at the count", log[20:50], counted.rest())
			r.wantNothing("/v2/logs?fromDate=0&count=50", counted.last)
			until := fmt.Sprintf("/v2/logs?fromDate=0&toDate=%d", time.Now().UnixMilli())
			e := r.follow(until, "")
			w.same("before toDate", log, e.take(len(log)))
			time.Sleep(time.Second)
			w.publishMany(1)
			w.same("at toDate", nil, e.rest())
			r.wantNothing(until, e.last)
			until = fmt.Sprintf("/v2/logs?toDate=%d", time.Now().Add(time.Minute).UnixMilli())
			e = r.follow(until, "")
			w.same("while nothing is written", nil, e.rest())
			r.wantNothing(until, e.last)
		})
	})
}

// TestFollowStops ends streams when the server begins to stop, in order, so that
// the server need not wait for them.
func TestFollowStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serving, stop := context.WithCancel(context.Background())
		quiet := fakeSource(func() (store.EventPage, error) { return store.EventPage{}, nil })
		handler := newSurface(t, &published{}, func(o *api.Options) {
			o.Log, o.Serving = eventlog.New(eventlog.Options{Store: quiet}), serving
		})
		read(t, handler, func(r *reader) {
			e := r.follow("/v2/logs", "")
			time.AfterFunc(time.Minute, stop)
			if entries := e.rest(); len(entries) > 0 {
				t.Errorf("got %d entries", len(entries))
			}
		})
	})
}

// TestStreamsHurry has clients that take nothing any more when the server begins to
// stop: it does not wait for them for as long as it would at other times.
func TestStreamsHurry(t *testing.T) {
	for _, media := range []string{"application/x-ndjson", "text/event-stream"} {
		t.Run(media, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				serving, stop := context.WithCancel(context.Background())
				ended := make(chan time.Time, 1)
				surface := newSurface(t, &published{}, func(o *api.Options) { o.Log, o.Serving = breaking(1_000_000), serving })
				handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					defer func() { ended <- time.Now() }()
					surface.ServeHTTP(w, r)
				})
				read(t, handler, func(r *reader) {
					response := r.ask(r.Context(), "/v2/logs?fromDate=0", media, "")
					defer response.Body.Close()
					time.Sleep(time.Minute)
					stop()
					began := time.Now()
					if took := (<-ended).Sub(began); took <= 0 || took > 5*time.Second {
						t.Errorf("the answer ended %s after the server began to stop", took)
					}
				})
			})
		})
	}
}

// acceptMany has the store accept n messages that are due later, each of which makes
// one entry.
func (w *world) acceptMany(n int) {
	w.Helper()
	now := time.Now()
	messages := make([]*posthaste.Message, n)
	for i := range messages {
		id, err := posthaste.NewMessageID(now, rand.NewChaCha8([32]byte{byte(i >> 8), byte(i)}))
		if err != nil {
			w.Fatal(err)
		}
		messages[i] = &posthaste.Message{
			ID: id, User: "ann", URL: "https://a.example/x", CreatedAt: now, NotBefore: now.Add(time.Hour),
			Settings: posthaste.Settings{Labels: []string{fmt.Sprint("l", i%7)}},
		}
	}
	for some := range slices.Chunk(messages, 1000) {
		if _, err := w.store.Accept(w.Context(), now, []store.Submission{{Messages: some}}); err != nil {
			w.Fatal(err)
		}
	}
}

// TestExport compares exports of many entries with the pages.
func TestExport(t *testing.T) {
	entries := 10_500 // with seven labels
	if testing.Short() {
		entries = 700
	}
	inWorld(t, func(w *world) {
		w.acceptMany(entries)
		read(w.T, w.handler, func(r *reader) {
			tests := []struct {
				params string
				count  int
			}{
				{"", entries},
				{"order=earliestFirst", entries},
				{"order=earliestFirst&label=l3&label=l4", entries / 7 * 2},
				{"label=none", 0},
			}
			for _, test := range tests {
				all := w.pages("/v2/logs?" + test.params)
				w.same("export of "+test.params, all, r.export("/v2/logs?"+test.params))
				w.same("half of "+test.params, all[:len(all)/2], r.export(fmt.Sprintf("/v2/logs?%s&count=%d", test.params, max(1, len(all)/2))))
				if len(all) != test.count {
					w.Errorf("%d entries match %q, want %d", len(all), test.params, test.count)
				}
			}
		})
	})
}

// export returns the lines that a path leads to.
func (r *reader) export(path string) (entries []string) {
	r.Helper()
	response := r.ask(r.Context(), path, "application/x-ndjson", "")
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		entries = append(entries, lines.Text())
	}
	if err := lines.Err(); err != nil {
		r.Fatalf("%s: %v", path, err)
	}
	return entries
}

// TestExportOutlivesDeadlines reads slowly, for longer than an answer may take.
func TestExportOutlivesDeadlines(t *testing.T) {
	inWorld(t, func(w *world) {
		w.publishMany(400)
		read(w.T, w.handler, func(r *reader) {
			response := r.ask(r.Context(), "/v2/logs", "application/x-ndjson", "")
			defer response.Body.Close()
			entries := 0
			for lines := bufio.NewScanner(response.Body); lines.Scan(); entries++ {
				time.Sleep(time.Second)
			}
			if entries != 1200 {
				t.Errorf("got %d entries, want 1200", entries)
			}
		})
	})
}

// TestStreamsNoticeDisconnects has clients go away in the middle: the requests end.
func TestStreamsNoticeDisconnects(t *testing.T) {
	for _, media := range []string{"application/x-ndjson", "text/event-stream"} {
		t.Run(media, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.publishMany(1000)
				ended := make(chan struct{})
				handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					defer close(ended)
					w.handler.ServeHTTP(rw, r)
				})
				read(w.T, handler, func(r *reader) {
					ctx, disconnect := context.WithCancel(r.Context())
					response := r.ask(ctx, "/v2/logs?fromDate=0", media, "")
					if _, err := bufio.NewReader(response.Body).ReadString('\n'); err != nil {
						t.Fatal(err)
					}
					disconnect()
					<-ended
				})
			})
		})
	}
}

// breaking is a log whose store fails after some reads.
func breaking(reads int) *eventlog.Log {
	return eventlog.New(eventlog.Options{Store: fakeSource(func() (store.EventPage, error) {
		if reads--; reads < 0 {
			return store.EventPage{}, errors.New("disk on fire")
		}
		return logFake(), nil
	})})
}

// fakeSource is an eventlog.Source made of a function.
type fakeSource func() (store.EventPage, error)

func (f fakeSource) Events(_ context.Context, _ string, _ store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	page, err := f()
	if err != nil {
		return 0, false, err
	}
	return page.Visit(visit)
}

func (fakeSource) Counts(context.Context, string, time.Time, time.Time, func(*store.Count)) error {
	return errors.ErrUnsupported
}

func (fakeSource) Watch(context.Context, string) (posthaste.Position, <-chan struct{}, error) {
	return posthaste.MaxPosition - 1, make(chan struct{}), nil
}

// TestStreamsThatFail tells clients that what they have is not all, and the log why.
func TestStreamsThatFail(t *testing.T) {
	for _, media := range []string{"application/x-ndjson", "text/event-stream"} {
		t.Run(media, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logged bytes.Buffer
				handler := newSurface(t, &published{}, func(o *api.Options) {
					o.Log = breaking(2)
					o.Logger = slog.New(slog.NewTextHandler(&logged, nil))
				})
				read(t, handler, func(r *reader) {
					response := r.ask(r.Context(), "/v2/logs?fromDate=0", media, "")
					body, err := io.ReadAll(response.Body)
					if !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Errorf("the stream ends with %v, want %v", err, io.ErrUnexpectedEOF)
					}
					if got := bytes.Count(body, []byte(`"messageId"`)); got != 2*len(logFake().Entries) {
						t.Errorf("%d entries came before", got)
					}
				})
				if !strings.Contains(logged.String(), "disk on fire") {
					t.Errorf("the log says %q", &logged)
				}
			})
		})
	}
	t.Run("at the beginning", func(t *testing.T) {
		handler := newSurface(t, &published{}, func(o *api.Options) { o.Log = breaking(0) })
		r := newRequest(http.MethodGet, "/v2/logs", nil)
		r.Header.Set("Accept", "application/x-ndjson")
		if got := do(handler, r); got.Code != http.StatusInternalServerError || got.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%d %s", got.Code, got.Body)
		}
	})
}

// TestStreamsOfHead have no body, and so nothing that takes time.
func TestStreamsOfHead(t *testing.T) {
	for _, media := range []string{"application/x-ndjson", "text/event-stream"} {
		t.Run(media, func(t *testing.T) {
			r := newRequest(http.MethodHead, "/v2/logs", nil)
			r.Header.Set("Accept", media)
			if got := do(newSurface(t, &published{}, nil), r); got.Body.Len() > 0 && got.Code == http.StatusOK {
				t.Errorf("HEAD answers %d bytes", got.Body.Len())
			}
		})
	}
}
