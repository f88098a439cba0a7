package dispatch

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"posthaste"
)

// hangUps are the ways in which a destination ends a connection as a request arrives.
var hangUps = map[string]func(net.Conn, *bufio.Reader){
	"closes as the request arrives": func(_ net.Conn, r *bufio.Reader) { _, _ = r.Peek(1) }, // a reset: bytes are unread
	"closes behind the request":     func(_ net.Conn, r *bufio.Reader) { _, _ = readRawRequest(r) },
	"resets behind the request": func(c net.Conn, r *bufio.Reader) {
		_, _ = readRawRequest(r)
		_ = c.(*net.TCPConn).SetLinger(0)
	},
}

// newFickle returns a destination that answers the first request of a connection and, if
// nothing is to be answered then, hangs up in the given way at the second one. It counts connections.
func newFickle(t *testing.T, hangUp func(net.Conn, *bufio.Reader)) (url string, connections *atomic.Int32) {
	connections = new(atomic.Int32)
	addr := serveTCP(t, func(conn net.Conn) {
		connections.Add(1)
		reader := bufio.NewReader(conn)
		if _, err := readRawRequest(reader); err != nil {
			return
		}
		if _, err := io.WriteString(conn, answerOK); err != nil {
			return
		}
		hangUp(conn, reader)
	})
	return "http://" + addr + "/", connections
}

// TestIdleConnectionThatWasClosed has a destination that closes kept connections at the
// worst moment: the attempt goes on over a new one.
func TestIdleConnectionThatWasClosed(t *testing.T) {
	for name, hangUp := range hangUps {
		for _, kind := range []string{"POST", "GET", "POST without a body", "POST of a large body"} {
			t.Run(name+", "+kind, func(t *testing.T) {
				url, connections := newFickle(t, hangUp)
				d := newTestDispatcher(t)
				m := newMessage(url)
				m.Method, _, _ = strings.Cut(kind, " ")
				switch kind {
				case "POST without a body", "GET":
					m.Body = nil
				case "POST of a large body":
					m.Body = make([]byte, 4<<20)
				}
				const attempts = 4
				for range attempts {
					requireDelivered(t, d.Attempt(t.Context(), m, 0))
				}
				if n := connections.Load(); n > attempts {
					t.Errorf("%d connections for %d attempts", n, attempts)
				}
			})
		}
	}
}

// TestRequestIsSentTwiceAtMost has a destination that answers one request, and hangs up at
// all others.
func TestRequestIsSentTwiceAtMost(t *testing.T) {
	for name, hangUp := range hangUps {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			addr := serveTCP(t, func(conn net.Conn) {
				reader := bufio.NewReader(conn)
				if _, err := reader.Peek(1); err != nil {
					return
				}
				if requests.Add(1) > 1 {
					hangUp(conn, reader)
					return
				}
				_, _ = readRawRequest(reader)
				_, _ = io.WriteString(conn, answerOK)
				if _, err := reader.Peek(1); err != nil {
					return
				}
				requests.Add(1)
				hangUp(conn, reader)
			})
			d := newTestDispatcher(t)
			m := newMessage("http://" + addr + "/")
			requireDelivered(t, d.Attempt(t.Context(), m, 0))
			if got := d.Attempt(t.Context(), m, 0); got.Class != posthaste.OutcomeRetryable {
				t.Errorf("outcome %s, want retryable", got.Class)
			}
			if n := requests.Load(); n != 3 {
				t.Errorf("%d requests, want one of the first attempt and two of the second", n)
			}
			if got := d.Attempt(t.Context(), m, 0); got.Class != posthaste.OutcomeRetryable {
				t.Errorf("outcome %s, want retryable", got.Class)
			}
			if n := requests.Load(); n != 4 {
				t.Errorf("%d requests, want no second one over a connection that was new", n)
			}
		})
	}
}

// TestAnswerThatBeganIsNotAskedForAgain checks that a connection is not taken for one that
// was closed while it was idle once something came back.
func TestAnswerThatBeganIsNotAskedForAgain(t *testing.T) {
	for name, answer := range map[string]string{
		"status line cut": "HTTP/1.1 20",
		"headers cut":     "HTTP/1.1 200 OK\r\nContent-",
		"body cut":        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
		"no HTTP":         "what?\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			url, connections := newFickle(t, func(conn net.Conn, r *bufio.Reader) {
				_, _ = readRawRequest(r)
				_, _ = io.WriteString(conn, answer)
			})
			d := newTestDispatcher(t)
			requireDelivered(t, d.Attempt(t.Context(), newMessage(url), 0))
			if got := d.Attempt(t.Context(), newMessage(url), 0); got.Class != posthaste.OutcomeRetryable {
				t.Errorf("outcome %s, want retryable", got.Class)
			}
			if n := connections.Load(); n != 1 {
				t.Errorf("%d connections, want 1", n)
			}
		})
	}
}

// TestIdleConnectionToAProxyThatWasClosed is the same by way of a proxy.
func TestIdleConnectionToAProxyThatWasClosed(t *testing.T) {
	url, _ := newFickle(t, hangUps["closes behind the request"])
	proxy, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := newTestDispatcher(t, func(o *Options) { o.Proxy = http.ProxyURL(proxy.URL) })
	for range 3 {
		requireDelivered(t, d.Attempt(t.Context(), newMessage("http://hook.test/"), 0))
	}
}
