package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"

	"posthaste"
	"posthaste/internal/store"
)

// answer is what a handler answers with when all went well.
type answer struct {
	status int
	body   any // JSON, streamed, or a handler that writes the whole answer; nil: none
}

func ok(body any) answer { return answer{http.StatusOK, body} }

// done is the answer to a change that has nothing to tell (contract, U-14).
var done = answer{status: http.StatusOK}

// streamed is a body that writes itself as JSON piece by piece, for answers too
// large to be built as a whole. It fails when the client is gone, or when it cannot go on.
type streamed interface {
	stream(w io.Writer) error
}

// statuses are the HTTP statuses of the codes.
var statuses = map[posthaste.Code]int{
	posthaste.CodeInvalid:      http.StatusBadRequest,
	posthaste.CodeUnauthorized: http.StatusUnauthorized,
	posthaste.CodeForbidden:    http.StatusForbidden,
	posthaste.CodeNotFound:     http.StatusNotFound,
	posthaste.CodeMethod:       http.StatusMethodNotAllowed,
	posthaste.CodeConflict:     http.StatusConflict,
	posthaste.CodeLimit:        http.StatusPreconditionFailed,
	posthaste.CodeEnded:        http.StatusBadRequest,
	posthaste.CodeTooLarge:     http.StatusRequestEntityTooLarge,
	posthaste.CodeRateLimited:  http.StatusTooManyRequests,
	posthaste.CodeUnavailable:  http.StatusServiceUnavailable,
	posthaste.CodeInternal:     http.StatusInternalServerError,
}

// render writes the answer, or the error if there is one.
func (a *api) render(w http.ResponseWriter, r *http.Request, answer answer, err error) {
	if err != nil {
		a.renderError(w, r, err)
		return
	}
	switch body := answer.body.(type) {
	case nil:
		stopReading(w, r)
		w.WriteHeader(answer.status)
	case streamed:
		a.renderStream(w, r, body)
	case http.Handler:
		body.ServeHTTP(w, r)
	default:
		stopReading(w, r)
		writeJSON(w, answer.status, body)
	}
}

// renderStream writes a body piece by piece, with the status 200.
func (a *api) renderStream(w http.ResponseWriter, r *http.Request, body streamed) {
	out := &jsonWriter{ResponseWriter: w}
	switch err := body.stream(out); {
	case err == nil:
	case !out.begun:
		a.renderError(w, r, err)
	default:
		// A connection that is cut tells the client, should it still be there, that
		// what it has is not all.
		panic(http.ErrAbortHandler)
	}
}

// jsonWriter writes JSON as the answer to a request.
type jsonWriter struct {
	http.ResponseWriter
	begun bool // the client may have a part of it
}

// Write implements io.Writer.
func (w *jsonWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.Header().Set("Content-Type", "application/json")
		w.begun = true
	}
	return w.ResponseWriter.Write(p)
}

// errorBody is the form of every error.
type errorBody struct {
	Error string `json:"error"`
}

func (a *api) renderError(w http.ResponseWriter, r *http.Request, err error) {
	shown := showable(err)
	status, ok := statuses[shown.Code]
	if !ok {
		status = http.StatusInternalServerError
	}
	if status >= http.StatusInternalServerError {
		a.logFailure(r, err)
	}
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusRequestEntityTooLarge:
		w.Header().Set("Connection", "close") // the rest of the body may be longer than what is read of it
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", retryAfter())
	}
	DiscardBody(w, r)
	writeJSON(w, status, errorBody{shown.Message})
}

// showable returns what a caller may know of an error.
func showable(err error) *posthaste.Error {
	if shown, ok := errors.AsType[*posthaste.Error](err); ok {
		return shown
	}
	if errors.Is(err, store.ErrClosed) {
		return posthaste.Errorf(posthaste.CodeUnavailable, "the server is shutting down, try again")
	}
	if errors.Is(err, store.ErrClock) {
		return posthaste.Errorf(posthaste.CodeUnavailable, "this server's clock is wrong, so it handles no requests, try again")
	}
	if errors.Is(err, store.ErrUnavailable) {
		return posthaste.Errorf(posthaste.CodeUnavailable, "the server cannot reach its database, try again")
	}
	return posthaste.Errorf(posthaste.CodeInternal, "the server failed to answer this request, see its log")
}

// logFailure logs an error that is our own. The path is left out: it may hold a
// destination, and that a password.
func (a *api) logFailure(r *http.Request, err error) {
	level := slog.LevelError
	if errors.Is(err, context.Canceled) || posthaste.ErrorCode(err) == posthaste.CodeUnavailable {
		level = slog.LevelDebug // the client went away; or a reason that was logged once and holds for all
	}
	a.options.Logger.Log(r.Context(), level, "request.failed",
		"method", r.Method, "route", r.Pattern, "error", err.Error())
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	encoded := encodeJSON(body)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(encoded)))
	w.WriteHeader(status)
	_, _ = w.Write(encoded)
}

// encodeJSON returns a value's JSON and a line break. It leaves the & of URLs as
// it is. The types that come here always have a JSON form; to be wrong about
// that is a bug.
func encodeJSON(value any) []byte {
	var buffer jsonBuffer
	return buffer.encode(value)
}

// jsonBuffer encodes one value after the other, for those who have many. The zero value
// is ready.
type jsonBuffer struct {
	buffer  bytes.Buffer
	encoder *json.Encoder // into buffer
}

// encode is encodeJSON. What it returns is valid until the next call.
func (b *jsonBuffer) encode(value any) []byte {
	if b.encoder == nil {
		b.encoder = json.NewEncoder(&b.buffer)
		b.encoder.SetEscapeHTML(false)
	}
	b.buffer.Reset()
	if err := b.encoder.Encode(value); err != nil {
		panic(err)
	}
	return b.buffer.Bytes()
}
