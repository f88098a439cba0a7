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
	if all.waiting.Len() != 0 {
		t.Errorf("%d connections wait, and none is there", all.waiting.Len())
	}
}
