package app

import (
	"bytes"
	"container/heap"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// connections bounds how many connections there are, of all listeners together.
//
// A connection waits while the server waits for its client: until a request on it has
// arrived with all its headers, while its body is read, while an answer is written, and
// from the end of its handler on. When there are as many as there may be, the one that
// has waited longest is closed for the one that comes: clients that say nothing, say it
// byte by byte, or read nothing take each other's places and nobody else's. Each has a
// moment in which its place is safe, however many come, and a body that comes fast
// enough keeps its own. Where none can be closed, the next one waits unaccepted.
type connections struct {
	most int

	mu      sync.Mutex
	changed *sync.Cond // one has been closed, or waits, or has waited long enough
	alarm   *time.Timer
	open    int
	waiting waitingConns
}

func newConnections(most int) *connections {
	all := &connections{most: most}
	all.changed = sync.NewCond(&all.mu)
	return all
}

// serve makes a server report what its connections do. It must accept them from a
// limitedListener.
func (all *connections) serve(server *http.Server) {
	next := server.Handler
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*clientConn); ok {
			all.resume(c)
			if r.ContentLength != 0 {
				r.Body = &awaitedBody{ReadCloser: r.Body, all: all, conn: c}
			}
			defer all.wait(c, 0)
		}
		next.ServeHTTP(w, r)
	})
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		c, ok := conn.(*clientConn)
		switch {
		case !ok:
		case state == http.StateIdle:
			c.line = c.line[:0]
		case state == http.StateClosed:
			all.remove(c)
		}
	}
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// limitedListener accepts a connection when one more is allowed.
type limitedListener struct {
	net.Listener
	all *connections
}

// Accept implements net.Listener.
func (l limitedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	limited := &clientConn{Conn: c, all: l.all, place: nowhere}
	l.all.add(limited)
	return limited, nil
}

// clientConn is a connection of a client.
type clientConn struct {
	net.Conn
	all  *connections
	line []byte // how the request begins that is read: see malformed.go

	counted    bool // guarded by connections, as all that follow
	place      int  // among those that wait, or nowhere
	waitsSince time.Time
}

// Write implements net.Conn. The connection waits while its client does not read.
func (c *clientConn) Write(p []byte) (int, error) {
	if c.all.wait(c, 0) {
		defer c.all.resume(c)
	}
	if bytes.Equal(p, malformed) && isOfARun(c.line) {
		_, err := c.Conn.Write(malformedInARun)
		return len(p), err
	}
	return c.Conn.Write(p)
}

// CloseWrite lets the server end its side first, so that a client that is still
// sending reads the response before the connection is gone.
func (c *clientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// add counts a connection as soon as one more is allowed.
func (all *connections) add(c *clientConn) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for all.open >= all.most && !all.closeLongest() {
		all.changed.Wait()
	}
	all.open++
	c.counted = true
	all.startWaiting(c, 0)
}

const (
	// safeTime is how long a connection may wait however many come: time for an honest
	// client to ask something.
	safeTime = 250 * time.Millisecond

	// honestRate is how many bytes of a body a second keep its connection safe.
	honestRate = 256 << 10
)

// closeLongest closes the connection that has waited longest, and reports whether it did.
// If it may not be closed yet, waiting callers are woken when it may.
func (all *connections) closeLongest() bool {
	if len(all.waiting) == 0 {
		return false
	}
	c := all.waiting[0]
	if safe := safeTime - time.Since(c.waitsSince); safe > 0 {
		all.wakeAfter(safe)
		return false
	}
	all.drop(c)
	_ = c.Conn.Close() // its server notices and forgets it
	return true
}

func (all *connections) wakeAfter(d time.Duration) {
	if all.alarm == nil {
		all.alarm = time.AfterFunc(d, all.changed.Broadcast)
		return
	}
	all.alarm.Reset(d)
}

// wait is called before the server waits for the client, who has let it wait for so long
// already. It reports whether the connection did not wait before, and has to be told by
// resume that the client has done its part.
func (all *connections) wait(c *clientConn, waited time.Duration) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if !c.counted || c.place >= 0 {
		return false
	}
	all.startWaiting(c, waited)
	return true
}

// resume is called when the server goes on. It returns how long it has waited.
func (all *connections) resume(c *clientConn) time.Duration {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.stopWaiting(c)
	return time.Since(c.waitsSince)
}

func (all *connections) startWaiting(c *clientConn, waited time.Duration) {
	c.waitsSince = time.Now().Add(-waited)
	heap.Push(&all.waiting, c)
	all.changed.Signal()
}

// remove is called when the connection was closed.
func (all *connections) remove(c *clientConn) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.drop(c)
	all.changed.Signal()
}

// drop stops counting a connection.
func (all *connections) drop(c *clientConn) {
	all.stopWaiting(c)
	if c.counted {
		c.counted = false
		all.open--
	}
}

func (all *connections) stopWaiting(c *clientConn) {
	if c.place >= 0 {
		heap.Remove(&all.waiting, c.place)
	}
}

// count returns how many connections there are.
func (all *connections) count() int {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.open
}

// awaitedBody is the body of a request, whose connection waits while it is read. The
// waiting adds up from one piece to the next, less the time that each is worth.
type awaitedBody struct {
	io.ReadCloser
	all    *connections
	conn   *clientConn
	waited time.Duration
}

// Read implements io.Reader.
func (b *awaitedBody) Read(p []byte) (int, error) {
	began := b.all.wait(b.conn, b.waited)
	n, err := b.ReadCloser.Read(p)
	if began {
		b.waited = max(0, b.all.resume(b.conn)-time.Duration(n)*time.Second/honestRate)
	}
	return n, err
}

// waitingConns is a heap of connections: the one that has waited longest is the first.
type waitingConns []*clientConn

// Len implements heap.Interface.
func (w waitingConns) Len() int { return len(w) }

// Less implements heap.Interface.
func (w waitingConns) Less(i, j int) bool { return w[i].waitsSince.Before(w[j].waitsSince) }

// Swap implements heap.Interface.
func (w waitingConns) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].place, w[j].place = i, j
}

// Push implements heap.Interface.
func (w *waitingConns) Push(x any) {
	c := x.(*clientConn)
	c.place = len(*w)
	*w = append(*w, c)
}

// Pop implements heap.Interface.
func (w *waitingConns) Pop() any {
	last := len(*w) - 1
	c := (*w)[last]
	c.place = nowhere
	(*w)[last] = nil
	*w = (*w)[:last]
	return c
}

// nowhere is the place of a connection that does not wait.
const nowhere = -1
