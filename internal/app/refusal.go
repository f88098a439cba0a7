package app

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// net/http answers what it cannot read as a request by itself, in plain text and
// without asking a handler. A client of ours is promised the same form for every
// error, so such answers are put into it on their way to the socket.
//
// They are known by when they are written, not by their text: from the call of a
// handler until the connection is idle again everything written is the handler's
// answer, and at any other time the server is refusing something.

// refusing makes a server speak our form of errors also where it refuses a
// request itself, and tell the connections what they are doing. The server must get
// its connections from a refusingListener.
func refusing(server *http.Server, all *connections) {
	next := server.Handler
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, refusingConnKey{}, c)
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(refusingConnKey{}).(*refusingConn); ok {
			c.answering.Store(true)
			all.resume(c)
			if r.ContentLength != 0 {
				r.Body = &awaitedBody{ReadCloser: r.Body, all: all, conn: c}
			}
			defer all.wait(c, 0)
		}
		next.ServeHTTP(w, r)
	})
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		c, ok := conn.(*refusingConn)
		switch {
		case !ok:
		case state == http.StateIdle:
			c.answering.Store(false)
			c.line = c.line[:0]
		case state == http.StateClosed:
			all.remove(c)
		}
	}
}

// refusingConnKey is the key of a request's connection in its context.
type refusingConnKey struct{}

// refusingListener makes refusingConns of the connections it accepts, as many as there
// may be.
type refusingListener struct {
	net.Listener
	all *connections
}

// Accept implements net.Listener.
func (l refusingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	refusing := &refusingConn{Conn: c, all: l.all, place: nowhere}
	l.all.add(refusing)
	return refusing, nil
}

// refusingConn is a connection that rewrites the refusals of its server.
type refusingConn struct {
	net.Conn
	all       *connections
	answering atomic.Bool // a handler was called and its answer is not complete
	line      []byte      // how the request begins that is being read; its reader's alone

	counted    bool // guarded by connections, as all that follow
	place      int  // among those that wait, or nowhere
	waitsSince time.Time
}

// maxLine is how much of a request is kept to tell what it is about.
const maxLine = 64

// Read notes how a request begins.
func (c *refusingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if more := min(n, maxLine-len(c.line)); more > 0 && !c.answering.Load() {
		c.line = append(c.line, p[:more]...)
	}
	return n, err
}

// Write passes on what is an answer of a handler, and puts a refusal into our
// form. The server writes a refusal at once, and then closes the connection.
func (c *refusingConn) Write(p []byte) (int, error) {
	if c.all.wait(c, 0) {
		defer c.all.resume(c)
	}
	if c.answering.Load() {
		return c.Conn.Write(p)
	}
	rewritten, ok := rewriteRefusal(p, c.line)
	if !ok {
		return c.Conn.Write(p)
	}
	if _, err := c.Conn.Write(rewritten); err != nil {
		return 0, err
	}
	return len(p), nil
}

// CloseWrite lets the server end its side first, so that a client that is still
// sending reads the refusal before the connection is gone.
func (c *refusingConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// rewriteRefusal returns a refusal of the server in our form; ok is false for what
// is none. The line is how the request begins.
func rewriteRefusal(answer, requestLine []byte) (rewritten []byte, ok bool) {
	line, _, _ := bytes.Cut(answer, []byte("\r\n"))
	rest, ok := strings.CutPrefix(string(line), "HTTP/1.1 ")
	if !ok {
		return nil, false
	}
	code, phrase, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(code)
	if err != nil || status < http.StatusBadRequest {
		return nil, false
	}
	if status == http.StatusBadRequest && failsRun(requestLine) {
		status = http.StatusPreconditionFailed
	}
	_, detail, _ := strings.Cut(phrase, ": ")
	body := encodeError(refusalSentence(status, detail))
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), len(body), body), true
}

// failsRun reports whether a request is one that the endpoint of a running workflow sends
// with an id of its user's in the path, which may have a % of its own. To such an endpoint
// 400 would say that the run has ended, and the run would wait for ever: 412 fails it, with
// the sentence (contract, decision 31).
func failsRun(requestLine []byte) bool {
	_, target, _ := strings.Cut(string(requestLine), " ")
	target = "/" + strings.TrimLeft(target, "/") // a base URL may end in a slash
	return strings.HasPrefix(target, "/v2/wait/") || strings.HasPrefix(target, "/v2/notify/")
}

// refusalSentence says what a client can do about a refusal. The detail is what
// net/http tells of some.
func refusalSentence(status int, detail string) string {
	switch {
	case status == http.StatusRequestHeaderFieldsTooLarge:
		return fmt.Sprintf("the headers and the URL of the request are larger than the limit of %d bytes", maxHeader)
	case status == http.StatusExpectationFailed:
		return "the value of the header Expect is not supported: 100-continue is accepted"
	case status == http.StatusNotImplemented:
		return "the value of the header Transfer-Encoding is not supported: chunked is accepted"
	case detail != "":
		return "the request is not valid HTTP: " + detail
	default:
		return "the request is not valid HTTP: usually its URL contains a % that is not followed by two hexadecimal digits, " +
			"to be written as %25, or a space, to be written as %20, or its Content-Length is not a number"
	}
}
