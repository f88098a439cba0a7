package dispatch

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// goodbyeTime is how long after a request was given to an idle connection its loss is put
// down to a close that had been on its way: some round trips. A destination that goes on for
// longer and then hangs up was working on the request.
const goodbyeTime = 2 * time.Second

// connection watches the connection that a request was sent on last.
type connection struct {
	taken    time.Time   // when the request got it
	idle     bool        // it was open before, and unused
	answered atomic.Bool // something came back
}

// watch returns a context for a request that is to be watched.
func (c *connection) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:              func(string) { c.idle = false },
		GotConn:              func(got httptrace.GotConnInfo) { c.taken, c.idle = time.Now(), got.WasIdle },
		GotFirstResponseByte: func() { c.answered.Store(true) },
	})
}

// wasGone reports whether err is explained by the destination having closed the connection
// while it was idle. It may not be so: the destination may have acted on the request.
func (c *connection) wasGone(ctx context.Context, err error) bool {
	return c.idle && !c.answered.Load() && isHangUp(err) && ctx.Err() == nil && time.Since(c.taken) < goodbyeTime
}

// transports send requests to destinations that are reached in one way.
type transports struct {
	kept  *http.Transport // over connections that are kept for further requests
	fresh *http.Transport // over a new connection each
}

func newTransports(kept *http.Transport) transports {
	fresh := kept.Clone()
	fresh.DisableKeepAlives = true
	return transports{kept, fresh}
}

// roundTrip sends a request, and once more over a new connection if the kept one was gone.
func (t transports) roundTrip(req *http.Request) (*http.Response, error) {
	var used connection
	resp, err := t.kept.RoundTrip(req.WithContext(used.watch(req.Context())))
	if err == nil || !used.wasGone(req.Context(), err) {
		return resp, err
	}
	again := req.WithContext(req.Context()) // a copy: the first transport may not be done with its own
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
