package api

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Gate limits what all requests hold together: places or bytes. Its errors are Errors that
// a client can act on.
type Gate interface {
	Enter(ctx context.Context, user string, amount int64) error
	Leave(user string, amount int64)
	// Shrink gives back all but the rest of an amount that was entered with.
	Shrink(user string, amount, rest int64)
}

// Turns limits how many read logs and dead letters at the same time: pages are work for a
// processor and nothing else, and would leave none for deliveries and for those who publish.
// Do runs work in the user's turn. It returns what work returns, or an Error that says why
// there was no turn.
type Turns interface {
	Do(ctx context.Context, user string, work func() error) error
}

// allAtOnce are turns for everybody at the same time.
type allAtOnce struct{}

func (allAtOnce) Do(_ context.Context, _ string, work func() error) error { return work() }

// openGate lets everybody in.
type openGate struct{}

func (openGate) Enter(context.Context, string, int64) error { return nil }
func (openGate) Leave(string, int64)                        {}
func (openGate) Shrink(string, int64, int64)                {}

// leastBody is what a body counts at least, in bytes: about what its connection and
// its request take beside it.
const leastBody = 64 << 10

// readsPages are the routes whose work is to read pages of logs, of dead letters and of
// lists, or one record that may be as large. While they wait for a turn or for memory, which may
// take long, they hold no place at the gate of requests.
var readsPages = map[string]bool{
	"GET /v2/logs": true, "GET /v2/logs/stats": true, "GET /v2/events": true, "GET /v2/workflows/logs": true, "GET /v2/workflows/events": true,
	"GET /v2/dlq": true, "GET /v2/workflows/dlq": true,
	"GET /v2/queues": true, "GET /v2/topics": true, "GET /v2/schedules": true, "GET /v2/flowControl": true,
	"GET /v2/messages/{id}": true, "GET /v2/dlq/{id}": true, "GET /v2/workflows/dlq/{id}": true, "GET /v2/workflows/runs/{run}": true,
}

// visit is what a request holds at the gates. Memory for the body comes first, the
// work on it when all of it has arrived: a client that sends slowly keeps nobody from
// working.
type visit struct {
	carried int64 // bytes of its body
	working bool  // holds a place at the gate of requests
}

// carry waits until there is memory for a body of size bytes, of limit bytes if size is
// negative, which means unknown.
func (r *request) carry(size, limit int64) error {
	if size < 0 {
		size = limit
	}
	size = max(size, leastBody)
	if err := r.bodyBytes.Enter(r.Context(), r.user, size); err != nil {
		return err
	}
	r.visit.carried += size
	return nil
}

// work waits until the request may be worked on, unless it is already.
func (r *request) work() error {
	if r.visit.working {
		return nil
	}
	if err := r.requests.Enter(r.Context(), r.user, 1); err != nil {
		return err
	}
	r.visit.working = true
	return nil
}

// leave gives back what the request holds.
func (r *request) leave() {
	if r.visit.working {
		r.requests.Leave(r.user, 1)
	}
	if r.visit.carried > 0 {
		r.bodyBytes.Leave(r.user, r.visit.carried)
	}
	r.visit = visit{}
}

// retryAfter is when to try again what was refused now, in seconds. It differs, so
// that those who were refused together do not come back together.
func retryAfter() string {
	const soonest, spread = 1, 3
	return strconv.Itoa(soonest + rand.IntN(spread))
}

// Bounds of what is read and thrown away of a body that is not used. Many clients read the
// answer only after they have sent all; if the connection is closed before, they see that
// it was reset, and no answer.
const (
	drainTime = 5 * time.Second
	drainSize = LargestMaxBody
)

// stopReading bounds how long the server waits for what it will not use of a body.
func stopReading(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime)) // some writers have no connection
}

// DiscardBody reads what is left of the body of a request that is refused, within bounds,
// before the refusal is written. A client that asks first, by Expect: 100-continue, is not
// told to go on.
func DiscardBody(w http.ResponseWriter, r *http.Request) {
	stopReading(w, r)
	asks := r.ContentLength > 0 && r.Header.Get("Expect") != ""
	if r.ContentLength == 0 || r.ContentLength > drainSize || asks {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, drainSize)
}
