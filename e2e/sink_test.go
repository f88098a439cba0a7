package e2e

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The kinds of answers a sink gives, by the first segment of the path.
const (
	answerOK       = "ok"       // 200
	answerLate     = "late"     // 200, after a moment in which the attempt is in flight
	answerFlaky    = "flaky"    // 503 to the first attempt, 200 to the others
	answerBroken   = "broken"   // 500 to every attempt
	answerRejected = "rejected" // 489 with the request not to try again
)

// arrival is an attempt as its destination sees it.
type arrival struct {
	messageID  string
	retried    int       // attempts that had failed before
	generation int       // how many servers had died before
	at         time.Time // when the request had arrived
	status     int       // what it was answered with
	path       string
	region     string // which the server says it is in
}

// sink is a destination that remembers what arrives.
type sink struct {
	url string

	mu         sync.Mutex
	arrivals   []arrival
	delivered  map[string]bool // messages that were answered with a success
	generation int
	open       int        // connections
	closed     *sync.Cond // signalled when a connection was closed
}

// newSink starts a sink that ends with the test.
func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{delivered: make(map[string]bool)}
	s.closed = sync.NewCond(&s.mu)
	server := httptest.NewUnstartedServer(s)
	server.Config.ConnState = s.track
	server.Start()
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// host returns the host of the sink's URL, with its port.
func (s *sink) host() string { return strings.TrimPrefix(s.url, "http://") }

// ServeHTTP answers an attempt.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if status := s.record(kind, r.URL.Path, r.Header); status != http.StatusOK {
		w.Header().Set("Upstash-NonRetryable-Error", strconv.FormatBool(kind == answerRejected))
		http.Error(w, kind, status)
		return
	}
	if kind == answerLate {
		time.Sleep(20 * time.Millisecond)
	}
}

// record notes an attempt and returns the status that it is to be answered with.
func (s *sink) record(kind, path string, header http.Header) int {
	retried, err := strconv.Atoi(header.Get("Upstash-Retried"))
	if err != nil {
		return http.StatusBadRequest
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := arrival{
		messageID:  header.Get("Upstash-Message-Id"),
		retried:    retried,
		generation: s.generation,
		at:         time.Now(),
		status:     statusOf(kind, retried),
		path:       path,
		region:     header.Get("Upstash-Region"),
	}
	s.arrivals = append(s.arrivals, a)
	if a.status == http.StatusOK {
		s.delivered[a.messageID] = true
	}
	return a.status
}

func statusOf(kind string, retried int) int {
	switch {
	case kind == answerBroken:
		return http.StatusInternalServerError
	case kind == answerRejected:
		return 489
	case kind == answerFlaky && retried == 0:
		return http.StatusServiceUnavailable
	default:
		return http.StatusOK
	}
}

// nextGeneration is called after a server has died. It waits until everything
// that server had sent was taken in, so that each arrival belongs to the server
// that sent it.
func (s *sink) nextGeneration(t *testing.T) {
	t.Helper()
	// Connections are accepted in the order in which they were made: when this one
	// is served, those of the dead server are at least open.
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(s.url)
	if err != nil {
		t.Fatalf("call the sink: %v", err)
	}
	_ = response.Body.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.open > 0 {
		s.closed.Wait()
	}
	s.generation++
}

// deliveries returns how many messages were answered with a success.
func (s *sink) deliveries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.delivered)
}

// taken returns the arrivals so far by message, each in order.
func (s *sink) taken() map[string][]arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	byMessage := make(map[string][]arrival)
	for _, a := range s.arrivals {
		byMessage[a.messageID] = append(byMessage[a.messageID], a)
	}
	return byMessage
}

// track counts the connections that are open.
func (s *sink) track(_ net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.open++
	case http.StateClosed:
		s.open--
		s.closed.Broadcast()
	}
}
