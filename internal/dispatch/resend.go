package dispatch

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// idleCloseWindow is how long after a request was sent on an idle connection its loss is
// explained by a close that was already under way. Later, the destination was probably working on
// the request.
const idleCloseWindow = 2 * time.Second

// connection observes the last connection of a request.
type connection struct {
	taken    time.Time   // when the request got it
	idle     bool        // reused
	answered atomic.Bool // response started
}

// watch returns the context of an observed request.
func (c *connection) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:              func(string) { c.idle = false },
		GotConn:              func(got httptrace.GotConnInfo) { c.taken, c.idle = time.Now(), got.WasIdle },
		GotFirstResponseByte: func() { c.answered.Store(true) },
	})
}

// wasIdleClosed reports whether err probably means that the destination closed an idle
// connection. It may nevertheless have processed the request.
func (c *connection) wasIdleClosed(ctx context.Context, err error) bool {
	return c.idle && !c.answered.Load() && isHangUp(err) && ctx.Err() == nil && time.Since(c.taken) < idleCloseWindow
}

// transports is a pair of transports to the same destinations.
type transports struct {
	kept  *http.Transport // keeps connections
	fresh *http.Transport // new connection per request
}

func newTransports(kept *http.Transport) transports {
	fresh := kept.Clone()
	fresh.DisableKeepAlives = true
	return transports{kept, fresh}
}

// roundTrip sends a request, and once more on a new connection if the kept one had been closed.
func (t transports) roundTrip(req *http.Request) (*http.Response, error) {
	var used connection
	resp, err := t.kept.RoundTrip(req.WithContext(used.watch(req.Context())))
	if err == nil || !used.wasIdleClosed(req.Context(), err) {
		return resp, err
	}
	again := req.WithContext(req.Context()) // a copy: the first transport may still use the original
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	return t.fresh.RoundTrip(again)
}

func (t transports) close() {
	if t.kept != nil {
		t.kept.CloseIdleConnections()
	}
}
