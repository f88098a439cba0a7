package app

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// visitor is a client of a server that has few connections.
type visitor struct {
	*testing.T
	net.Conn
	answers *bufio.Reader
}

// visit connects and says something.
func visit(t *testing.T, url, words string) *visitor {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	v := &visitor{T: t, Conn: conn, answers: bufio.NewReader(conn)}
	v.say(words)
	return v
}

func (v *visitor) say(words string) {
	v.Helper()
	if _, err := io.WriteString(v, words); err != nil {
		v.Fatal(err)
	}
}

// wantAnswer fails unless the server answers.
func (v *visitor) wantAnswer() {
	v.Helper()
	if response, body := readAnswer(v.T, v.answers); response.StatusCode != http.StatusOK {
		v.Errorf("%s %s", response.Status, body)
	}
}

// wantClosed waits until the server has closed the connection, without an answer.
func (v *visitor) wantClosed() {
	v.Helper()
	answer, err := io.ReadAll(v.answers)
	if len(answer) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		v.Errorf("answered %q, %v; want the connection closed", answer, err)
	}
}

const whole = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

// serveTwo serves two connections at most, with a handler that answers when it is let
// go, at /held, or else at once.
func serveTwo(t *testing.T) (url string, held, letGo chan struct{}) {
	held, letGo = make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			held <- struct{}{}
			<-letGo
		}
	})
	return serveConnections(t, handler, newConnections(2), slog.New(slog.DiscardHandler)), held, letGo
}

func TestSilentConnectionsGiveWay(t *testing.T) {
	url, held, letGo := serveTwo(t)
	silent, dripping := visit(t, url, ""), visit(t, url, "GET / HTTP/1.1\r\nHos")
	third := visit(t, url, whole)
	third.wantAnswer()
	silent.wantClosed() // came first
	busy := visit(t, url, strings.Replace(whole, "/", "/held", 1))
	<-held
	dripping.wantClosed()
	fifth := visit(t, url, whole)
	fifth.wantAnswer()
	third.wantClosed() // idle since its answer
	close(letGo)
	busy.wantAnswer()
	busy.say(whole)
	busy.wantAnswer()
}

func TestNoConnectionGivesWayWhileItIsAnswered(t *testing.T) {
	url, held, letGo := serveTwo(t)
	slow := strings.Replace(whole, "/", "/held", 1)
	first, second := visit(t, url, slow), visit(t, url, slow)
	<-held
	<-held
	third := visit(t, url, whole) // waits in the queue of the listener, and for a place
	letGo <- struct{}{}
	letGo <- struct{}{}
	third.wantAnswer()
	for _, answered := range []*visitor{first, second} {
		answered.wantAnswer()
	}
}

// Bodies that come byte by byte, answers that are not read and bodies that nobody reads
// are connections that wait for their clients, as long as nothing else comes.
func TestDawdlersGiveWay(t *testing.T) {
	const post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nx"
	tests := map[string]struct {
		words   string
		handler http.HandlerFunc
	}{
		"a body that is read":     {post, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) }},
		"a body that is not read": {post, func(http.ResponseWriter, *http.Request) {}},
		"a body of chunks": {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
			func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) }},
		"an answer that is not read": {strings.Replace(whole, "/", "/large", 1), func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 64<<20)) // more than what is between the two can hold
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost || r.URL.Path == "/large" {
					test.handler(w, r)
				}
			})
			url := serveConnections(t, handler, newConnections(2), slog.New(slog.DiscardHandler))
			for range 3 {
				visit(t, url, test.words)
			}
			visit(t, url, whole).wantAnswer()
		})
	}
}

// A body that comes fast enough keeps its place, however long it takes, and the one that
// is slower gives way.
func TestSlowestBodyGivesWay(t *testing.T) {
	all := newConnections(2)
	now := time.Now()
	quick, slow := new(awaitedBody), new(awaitedBody)
	for _, b := range []*awaitedBody{quick, slow} {
		b.ReadCloser, b.all, b.conn = io.NopCloser(strings.NewReader(strings.Repeat("x", honestRate))), all, &clientConn{Conn: nobody{}, all: all, place: nowhere}
		all.add(b.conn)
		all.resume(b.conn)
	}
	quick.waited, slow.waited = time.Second, time.Second // for what has come so far
	if _, err := quick.Read(make([]byte, honestRate)); err != nil || quick.waited > time.Since(now) {
		t.Errorf("a second's worth of bytes leaves %s of a second, %v", quick.waited, err)
	}
	if _, err := slow.Read(make([]byte, 1)); err != nil || slow.waited < time.Second-time.Millisecond {
		t.Errorf("a byte leaves %s of a second, %v", slow.waited, err)
	}
	all.wait(quick.conn, quick.waited)
	all.wait(slow.conn, slow.waited)
	all.add(&clientConn{Conn: nobody{}, all: all, place: nowhere})
	if slow.conn.counted || !quick.conn.counted {
		t.Errorf("the slow one is there: %v, the quick one: %v", slow.conn.counted, quick.conn.counted)
	}
}

// nobody is the other end of a connection.
type nobody struct{ net.Conn }

func (nobody) Close() error { return nil }

// TestConnectionsAreCounted has connections that end in every way.
func TestConnectionsAreCounted(t *testing.T) {
	all := newConnections(10)
	url := serveConnections(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), all, slog.New(slog.DiscardHandler))
	visit(t, url, "").Close()
	visit(t, url, "no HTTP\r\n\r\n")
	answered := visit(t, url, whole)
	answered.wantAnswer()
	answered.Close()
	for all.count() > 0 {
		all.mu.Lock()
		if all.open > 0 {
			all.changed.Wait() // a connection that is never forgotten hangs the test
		}
		all.mu.Unlock()
	}
	if len(all.waiting) != 0 {
		t.Errorf("%d connections wait, and none is there", len(all.waiting))
	}
}
