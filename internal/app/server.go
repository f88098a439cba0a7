package app

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"posthaste/internal/api"
	"posthaste/internal/console"
	"posthaste/internal/site"
)

// Bounds of one connection. A body of the largest size that can be allowed,
// 100 MiB, arrives within bodyTime at 3 Mbit/s.
const (
	headerTime = 10 * time.Second
	bodyTime   = 5 * time.Minute
	answerTime = 10 * time.Minute // from the end of the headers: body, work and answer
	idleTime   = 2 * time.Minute
	maxHeader  = api.MaxHeader // a header to be forwarded counts twice against memory

	ignoredTime = 5 * time.Second // for a body that is not read
)

// newServer returns a server that holds its clients to the bounds above. Panics are answered
// with an error in our form; a request that is not valid HTTP reaches no handler, and net/http
// answers it in plain text and closes the connection.
func newServer(handler http.Handler, all *connections, logger *slog.Logger) *http.Server {
	server := &http.Server{
		Handler:           recovering(endingDoubt(handler), logger),
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       bodyTime,
		WriteTimeout:      answerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	all.serve(server)
	return server
}

// endingDoubt closes the connection behind a request whose end readers may disagree on.
// package http takes chunks for the truth where a length is given too, and does not tell
// that there was one; nor does it tell of chunks that an HTTP/1.0 client announced. A
// proxy that reads them otherwise would let a client smuggle a second request within the
// body of the first (RFC 9112, 6.1).
func endingDoubt(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// routes are the handlers of the server. The exact path selects one:
// http.ServeMux would redirect a destination with a double slash.
type routes struct {
	api     http.Handler
	ready   http.Handler
	metrics http.Handler
	console http.Handler
	docs    http.Handler
}

// ServeHTTP answers the operational paths, and those of the console and the reference,
// without authentication and leaves the rest to the API.
func (r *routes) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	handler := r.open(request.URL.Path)
	if handler == nil {
		w.Header().Set("Cache-Control", "no-store") // bodies, tokens and keys are for nobody else
		r.api.ServeHTTP(w, request)
		return
	}
	ignoreBody(w, request)
	handler.ServeHTTP(w, request)
}

// open returns what answers a path without authentication, nil if nothing does. None of
// it reads a body.
func (r *routes) open(path string) http.Handler {
	switch {
	case path == "/":
		return http.HandlerFunc(answerRoot)
	case path == "/healthz":
		return http.HandlerFunc(answerHealth)
	case path == "/readyz":
		return r.ready
	case path == "/metrics":
		return r.metrics
	case console.Has(path):
		return r.console
	case site.Has(path):
		return r.docs
	default:
		return nil
	}
}

// ignoreBody bounds how long a body is waited for that no handler reads. Package http
// reads it before it answers; meanwhile the connection could not be closed for another.
func ignoreBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(ignoredTime)) // some writers have no connection
	}
}

// answerRoot leads a browser to the console, and shows other clients where things are.
func answerRoot(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		answerError(w, http.StatusMethodNotAllowed, "/ accepts only GET and HEAD: the routes of the API begin with /v2/")
	case strings.Contains(r.Header.Get("Accept"), "text/html"):
		http.Redirect(w, r, "/console", http.StatusFound)
	default:
		answerJSON(w, http.StatusOK, map[string]string{"api": "/v2/", "console": "/console", "docs": "/docs", "openapi": "/openapi.yaml"})
	}
}

// answerHealth says that the process answers; nothing else is looked at.
func answerHealth(w http.ResponseWriter, _ *http.Request) {
	answerText(w, http.StatusOK, "ok")
}

func answerText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}

func answerError(w http.ResponseWriter, status int, sentence string) {
	answerJSON(w, status, map[string]string{"error": sentence})
}

func answerJSON(w http.ResponseWriter, status int, value map[string]string) {
	body := encodeJSON(value)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func encodeJSON(value map[string]string) []byte {
	body, _ := json.Marshal(value) // cannot fail
	return append(body, '\n')
}
