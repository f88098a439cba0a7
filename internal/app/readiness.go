package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"posthaste/internal/store"
)

const (
	// pingTimeout is how long the store may take to commit before it counts as
	// refusing writes.
	pingTimeout = 2 * time.Second
	// pingFreshness is how long the answer of the store is taken for granted:
	// the endpoint needs no token, and each ping is a sync of the disk.
	pingFreshness = time.Second
)

// readiness answers whether the server does its work and goes on doing it: messages are
// being handed out, the store takes writes, and nobody has asked the server to stop. One whose disk is full does: it delivers what it
// has, and nobody else could.
type readiness struct {
	stopping    func() bool
	dispatching func() error
	ping        func(context.Context) error
	room        func() error // says why nothing new is accepted; nil: there is always room
	logger      *slog.Logger
	now         func() time.Time

	mu       sync.Mutex // held while the store is asked, so that one caller asks for all
	pingedAt time.Time
	pingErr  error

	logged atomic.Pointer[string] // the reason that was logged last; nil: it was ready since
}

// ServeHTTP answers 200, with what it cannot do, or 503 with the reason.
func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if err := r.check(); err != nil {
		answerText(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	text := "ready"
	if err := r.roomLeft(); err != nil {
		text += ", but " + err.Error()
	}
	answerText(w, http.StatusOK, text)
}

func (r *readiness) roomLeft() error {
	if r.room == nil {
		return nil
	}
	return r.room()
}

// check returns nil, or the reason why the server is not ready, which anybody may
// read. Details are only logged.
func (r *readiness) check() error {
	if r.stopping() {
		return errors.New("not ready: the server is stopping")
	}
	if err := r.dispatching(); err != nil {
		return r.refuse("the dispatcher is not making progress", err)
	}
	if err := r.pingOnce(); errors.Is(err, store.ErrClock) {
		return r.refuse(store.ErrClock.Error(), err)
	} else if err != nil {
		return r.refuse("the store rejects writes", err)
	}
	r.logged.Store(nil)
	return nil
}

// refuse logs a reason once, however often probes ask meanwhile.
func (r *readiness) refuse(reason string, err error) error {
	if before := r.logged.Swap(&reason); before == nil || *before != reason {
		r.logger.Warn("not.ready", "reason", reason, "error", err)
	}
	return errors.New("not ready: " + reason)
}

// pingOnce asks the store, unless it was asked a moment ago. The request's
// context is left out on purpose: the answer is for other callers too.
func (r *readiness) pingOnce() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.pingedAt.IsZero() && r.now().Sub(r.pingedAt) < pingFreshness {
		return r.pingErr
	}
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	r.pingErr = r.ping(ctx)
	r.pingedAt = r.now()
	return r.pingErr
}
