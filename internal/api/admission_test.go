package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"posthaste"
	"posthaste/internal/admission"
	"posthaste/internal/api"
	"posthaste/internal/store"
)

// TestBusy checks that what the gates do not admit is refused in a way a client can act on,
// and that nothing of it was done.
func TestBusy(t *testing.T) {
	tests := []struct {
		name    string
		hold    func(w *world) (letGo func())
		call    call
		refused bool
	}{
		{"a read", holdRequests, call{method: "GET", path: "/v2/queues"}, true},
		{"a publication", holdRequests, call{method: "POST", path: "/v2/publish/https://example.com", body: "hi"}, true},
		{"a change without a body", holdRequests, call{method: "POST", path: "/v2/queues/q/pause"}, true},
		{"readiness", holdRequests, call{method: "GET", path: "/v2/readiness"}, false},
		{"a body", holdBodies, call{method: "POST", path: "/v2/publish/https://example.com", body: "hi"}, true},
		{"what has no body", holdBodies, call{method: "GET", path: "/v2/queues"}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				letGo := test.hold(w)
				response := w.answer(test.call, "full")
				letGo()
				if !test.refused {
					if response.Code != http.StatusOK {
						t.Errorf("answered %d %s", response.Code, response.Body)
					}
					return
				}
				if response.Code != http.StatusServiceUnavailable {
					t.Errorf("answered %d %s, want 503", response.Code, response.Body)
				}
				if after, err := strconv.Atoi(response.Header().Get("Retry-After")); err != nil || after < 1 || after > 3 {
					t.Errorf("Retry-After %q, want 1 to 3 seconds", response.Header().Get("Retry-After"))
				}
				checkAnswer(t, response)
				w.after(time.Hour)
			})
		})
	}
}

// holdRequests takes all places of the gate of requests.
func holdRequests(w *world) (letGo func()) { return hold(w, w.requests, 10) }

// holdBodies takes all bytes of the gate of bodies.
func holdBodies(w *world) (letGo func()) { return hold(w, w.bodies, 2<<20) }

// hold takes the shares of two users, which is all there is.
func hold(w *world, gate *admission.Gate, share int64) (letGo func()) {
	for _, user := range []string{"one", "two"} {
		if err := gate.Enter(w.Context(), user, share); err != nil {
			w.Fatal(err)
		}
	}
	return func() {
		gate.Leave("one", share)
		gate.Leave("two", share)
	}
}

// TestFloodOfOneUser has a user who asks for far more than there is, and checks that
// another one is served as if alone, and that the first is told so.
func TestFloodOfOneUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const working, takes = 4, 100 * time.Millisecond
		handler := newSurface(t, &published{}, func(o *api.Options) {
			o.Requests = admission.New(admission.Options{Capacity: working, Share: working - 1, Patience: time.Second})
			o.Engine = slowEngine{takes: takes}
		})
		statuses := make(chan int, 1000)
		for i := range cap(statuses) {
			go func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				statuses <- listQueues(handler, "full").code
			}()
		}
		for range 20 {
			time.Sleep(50 * time.Millisecond)
			if got := listQueues(handler, "other"); got.code != http.StatusOK || got.took > takes {
				t.Errorf("the other user was answered %d after %s", got.code, got.took)
			}
		}
		answered := make(map[int]int)
		for range cap(statuses) {
			answered[<-statuses]++
		}
		if answered[http.StatusOK] < 40 || answered[http.StatusTooManyRequests]+answered[http.StatusServiceUnavailable] < 900 {
			t.Errorf("the flood was answered %v", answered)
		}
	})
}

// slowEngine takes its time to tell of the queues.
type slowEngine struct {
	api.Engine
	takes time.Duration
}

func (e slowEngine) Queues(context.Context, string, string) (store.List[store.QueueStatus], error) {
	time.Sleep(e.takes)
	return store.List[store.QueueStatus]{}, nil
}

// reply is how a request was answered, and after how long.
type reply struct {
	code int
	took time.Duration
}

func listQueues(handler http.Handler, token string) reply {
	began := time.Now()
	r := newRequest("GET", "/v2/queues", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return reply{do(handler, r).Code, time.Since(began)}
}

// TestSlowBodyKeepsNobodyFromWorking has clients that never end their bodies.
func TestSlowBodyKeepsNobodyFromWorking(t *testing.T) {
	inWorld(t, func(w *world) {
		const slow = 15 // more than may be worked on for a user
		ended := make(chan int, slow)
		hang := make(chan struct{})
		for range slow {
			go func() {
				r := newRequest("POST", "/v2/publish/https://example.com", hangingReader(hang))
				r.ContentLength = 3
				ended <- do(w.handler, r).Code
			}()
		}
		synctest.Wait()
		if status, body := w.ask(call{method: "POST", path: "/v2/queues", body: `{"queueName":"q"}`}, "full"); status != http.StatusOK {
			t.Errorf("answered %d %s", status, body)
		}
		close(hang)
		for range slow {
			if status := <-ended; status != http.StatusBadRequest {
				t.Errorf("half a body was answered %d", status)
			}
		}
	})
}

// submissions are calls whose bodies are read, beside those of the surface.
var submissions = []call{
	{method: "POST", path: "/v2/trigger/https://example.com"},
	{method: "POST", path: "/v2/batch/trigger"},
	{method: "DELETE", path: "/v2/workflows/runs/wfr_1?cancel=false"},
	{method: "DELETE", path: "/v2/workflows/runs"},
	{method: "POST", path: "/v2/wait/e"},
	{method: "POST", path: "/v2/notify/e"},
	{method: "POST", path: "/v2/notify/wfr_1/e"},
	{method: "DELETE", path: "/v2/workflows/dlq"},
	{method: "DELETE", path: "/v2/workflows/dlq/1-1"},
	{method: "POST", path: "/v2/workflows/dlq/restart"},
	{method: "POST", path: "/v2/workflows/dlq/restart/1-1"},
	{method: "POST", path: "/v2/workflows/dlq/resume"},
	{method: "POST", path: "/v2/workflows/dlq/resume/1-1"},
	{method: "POST", path: "/v2/workflows/dlq/callback/1-1"},
	{method: "DELETE", path: "/v2/workflows/dlq/callback/1-1"},
}

// pages are the paths of pages of logs and of dead letters.
var pages = map[string]bool{
	"/v2/logs": true, "/v2/events": true, "/v2/workflows/logs": true, "/v2/workflows/events": true, "/v2/dlq": true, "/v2/workflows/dlq": true,
}

// someTurns are so many turns, and then no more.
type someTurns struct{ left int }

func (s *someTurns) Do(_ context.Context, _ string, work func() error) error {
	if s.left == 0 {
		return posthaste.Errorf(posthaste.CodeUnavailable, "the server is busy")
	}
	s.left--
	return work()
}

// TestPageWithoutATurn has no turn to read pages: they are refused like any other request.
func TestPageWithoutATurn(t *testing.T) {
	for path := range pages {
		if path == "/v2/logs" || path == "/v2/events" { // the turns of reading the log are its source's
			continue
		}
		t.Run(path, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.readers.left = 0
				status, body := w.ask(call{method: http.MethodGet, path: path}, "full")
				if status != http.StatusServiceUnavailable {
					t.Errorf("answered %d %s, want 503", status, body)
				}
			})
		})
	}
}

// TestBodyIsNoWayAroundTheGate has every call say something that only some of them read.
func TestBodyIsNoWayAroundTheGate(t *testing.T) {
	for _, c := range slices.Concat(surface, keys, submissions, []call{{method: "DELETE", path: "/v2/workflows/runs/wfr_1"}}) {
		if c.method == http.MethodGet && pages[c.path] { // the turns of readers are theirs
			continue
		}
		t.Run(strings.TrimSpace(c.method+" "+c.path), func(t *testing.T) {
			inWorld(t, func(w *world) {
				furnish(w)
				letGo := holdRequests(w)
				c.body = "{}"
				status, body := w.ask(c, "full")
				letGo()
				if status != http.StatusServiceUnavailable {
					t.Errorf("answered %d %s, want 503", status, body)
				}
			})
		})
	}
}

// TestBodyArrivesBeforeTheWork has every call that is read never end its body.
func TestBodyArrivesBeforeTheWork(t *testing.T) {
	for _, c := range slices.Concat(surface, submissions) {
		if c.body == "" && !slices.Contains(submissions, c) {
			continue
		}
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var entered []int64
				handler := newSurface(t, &published{}, func(o *api.Options) { o.Requests = noting{&entered} })
				r := newRequest(c.method, c.path, nil)
				hang, ended := make(chan struct{}), make(chan int)
				r.Body, r.ContentLength = io.NopCloser(hangingReader(hang)), 3
				go func() { ended <- do(handler, r).Code }()
				synctest.Wait()
				if len(entered) > 0 {
					t.Error("it holds a place among those at work before its body is there")
				}
				close(hang)
				if status := <-ended; status/100 != 4 {
					t.Errorf("half a body was answered %d", status)
				}
			})
		})
	}
}

// TestRestOfBodyIsNotWaitedFor has bodies of which an answer does not need all: until they
// have ended, the connection is taken.
func TestRestOfBodyIsNotWaitedFor(t *testing.T) {
	tests := []struct {
		name, method, path, body string
		bounded                  bool
	}{
		{"an answer", "GET", "/v2/globalParallelism", "x", true},
		{"an answer that is empty", "POST", "/v2/queues/q/pause", "x", true},
		{"an error", "GET", "/v2/nothing", "x", true},
		{"no body", "GET", "/v2/globalParallelism", "", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				answer := &deadlineWriter{ResponseRecorder: httptest.NewRecorder()}
				w.handler.ServeHTTP(answer, newRequest(test.method, test.path, strings.NewReader(test.body)))
				if answer.bounded != test.bounded {
					t.Errorf("answered %d; the wait for the body is bounded: %t, want %t", answer.Code, answer.bounded, test.bounded)
				}
			})
		})
	}
}

// deadlineWriter notes whether the reading of a body was bounded before it was answered.
type deadlineWriter struct {
	*httptest.ResponseRecorder
	begun, bounded bool
}

func (w *deadlineWriter) WriteHeader(status int) {
	w.begun = true
	w.ResponseRecorder.WriteHeader(status)
}

// SetReadDeadline is called by http.ResponseController.
func (w *deadlineWriter) SetReadDeadline(at time.Time) error {
	w.bounded = !w.begun && !at.IsZero()
	return nil
}

// hangingReader is a body of which nothing comes until it ends too early.
type hangingReader chan struct{}

func (r hangingReader) Read([]byte) (int, error) {
	<-r
	return 0, fmt.Errorf("the client is gone")
}

// TestUnannouncedBodyCountsWhole checks that a body of unknown length needs memory for
// the largest one there may be, and small ones for what they take with them.
func TestUnannouncedBodyCountsWhole(t *testing.T) {
	var entered []int64
	handler := newSurface(t, &published{}, func(o *api.Options) {
		o.MaxBody = 1 << 20
		o.BodyBytes = noting{&entered}
	})
	for _, size := range []int64{-1, 5, 100_000} {
		r := newRequest("POST", "/v2/publish/https://example.com", strings.NewReader(strings.Repeat("x", max(5, int(size)))))
		r.ContentLength = size
		if got := do(handler, r); got.Code != http.StatusOK {
			t.Errorf("%d %s", got.Code, got.Body)
		}
	}
	if want := "[1048576 -1048576 65536 -65536 100000 -100000]"; fmt.Sprint(entered) != want {
		t.Errorf("entered and left with %v, want %s", entered, want)
	}
}

// noting is a gate that lets everybody in and notes what comes and goes.
type noting struct{ amounts *[]int64 }

func (n noting) Enter(_ context.Context, _ string, amount int64) error {
	*n.amounts = append(*n.amounts, amount)
	return nil
}

func (n noting) Leave(_ string, amount int64) { *n.amounts = append(*n.amounts, -amount) }

func (n noting) Shrink(user string, amount, rest int64) { n.Leave(user, amount-rest) }

// TestReadersKeepNobodyFromPublishing has more who wait to read the log than requests may
// be worked on.
func TestReadersKeepNobodyFromPublishing(t *testing.T) {
	inWorld(t, func(w *world) {
		letGo := holdRequests(w)
		status, body := w.ask(call{method: "GET", path: "/v2/logs"}, "full")
		letGo()
		if status != http.StatusOK {
			t.Errorf("the log waits for those who publish: %d %s", status, body)
		}
	})
}

// TestStreamsAreBounded checks that one stream too many is refused at once, that each
// gives its place back when its client goes away, and that other requests do not mind.
func TestStreamsAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		follow := func(ctx context.Context, token string) int {
			r := newRequest("GET", "/v2/logs", nil).WithContext(ctx)
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Accept", "text/event-stream")
			return do(cutting(w.handler), r).Code
		}
		letGo := hold(w, w.streams, 20)
		if status := follow(w.Context(), "full"); status != http.StatusServiceUnavailable {
			t.Errorf("one too many was answered %d", status)
		}
		if status, body := w.ask(call{method: "GET", path: "/v2/queues"}, "full"); status != http.StatusOK {
			t.Errorf("beside streams: %d %s", status, body)
		}
		letGo()
		ctx, goAway := context.WithCancel(w.Context())
		ended := make(chan int)
		go func() { ended <- follow(ctx, "full") }()
		synctest.Wait()
		goAway()
		if status := <-ended; status != http.StatusOK {
			t.Errorf("a stream was answered %d", status)
		}
	})
}

// cutting takes the panic by which a handler has its connection cut.
func cutting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if cause := recover(); cause != nil && cause != http.ErrAbortHandler {
				panic(cause)
			}
		}()
		next.ServeHTTP(w, r)
	})
}
