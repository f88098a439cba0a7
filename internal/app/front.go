package app

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"posthaste/internal/api"
	"posthaste/internal/store"
)

// front is the handler of the server. Until what is behind it is there, it answers what is
// waited for: the database, or that the clock is set right.
type front struct {
	behind atomic.Pointer[http.Handler]
	clock  atomic.Bool // it is the clock
}

// awaits notes why the database could not be opened.
func (f *front) awaits(failure error) { f.clock.Store(errors.Is(failure, store.ErrClock)) }

func (f *front) open(behind http.Handler) { f.behind.Store(&behind) }

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if behind := f.behind.Load(); behind != nil {
		(*behind).ServeHTTP(w, r)
		return
	}
	api.DiscardBody(w, r)
	reason, sentence := "the database does not answer", "the server cannot reach its database yet, try again"
	if f.clock.Load() {
		reason, sentence = store.ErrClock.Error(), "this server's clock is wrong, so it handles no requests, try again"
	}
	switch r.URL.Path {
	case "/healthz":
		answerHealth(w, r)
	case "/v2/liveness":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"live":true}`+"\n")
	case "/readyz":
		answerText(w, http.StatusServiceUnavailable, "not ready: "+reason)
	default:
		w.Header().Set("Retry-After", "1")
		answerError(w, http.StatusServiceUnavailable, sentence)
	}
}
