package app

import (
	"io"
	"net/http"
	"sync/atomic"

	"posthaste/internal/api"
)

// front is the handler of the server. Until what is behind it is there, it answers that
// the database is waited for.
type front struct {
	behind atomic.Pointer[http.Handler]
}

func (f *front) open(behind http.Handler) { f.behind.Store(&behind) }

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if behind := f.behind.Load(); behind != nil {
		(*behind).ServeHTTP(w, r)
		return
	}
	api.DiscardBody(w, r)
	switch r.URL.Path {
	case "/healthz":
		answerHealth(w, r)
	case "/v2/liveness":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"live":true}`+"\n")
	case "/readyz":
		answerText(w, http.StatusServiceUnavailable, "not ready: the database does not answer")
	default:
		w.Header().Set("Retry-After", "1")
		answerError(w, http.StatusServiceUnavailable, "the server does not reach its database yet, try again")
	}
}
