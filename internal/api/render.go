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

// answer is the response of a handler.
type answer struct {
	status int
	body   any // JSON, streamed, or a handler that writes it all; nil: empty
}

func ok(body any) answer { return answer{http.StatusOK, body} }

// done is an empty response (contract, U-14).
var done = answer{status: http.StatusOK}

// streamed is a large body that writes its JSON piece by piece. It returns an error if it cannot
// continue.
type streamed interface {
	stream(w io.Writer) error
}

// statuses maps codes to HTTP statuses.
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

// render writes the response or error.
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

// renderStream writes a body piece by piece with status 200.
func (a *api) renderStream(w http.ResponseWriter, r *http.Request, body streamed) {
	out := &jsonWriter{ResponseWriter: w}
	switch err := body.stream(out); {
	case err == nil:
	case !out.begun:
		a.renderError(w, r, err)
	default:
		// an aborted connection tells the client that the response is incomplete
		panic(http.ErrAbortHandler)
	}
}

// jsonWriter sets the content type when writing starts.
type jsonWriter struct {
	http.ResponseWriter
	begun bool // part of the response is written
}

func (w *jsonWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.Header().Set("Content-Type", "application/json")
		w.begun = true
	}
	return w.ResponseWriter.Write(p)
}

// errorBody is the JSON of every error.
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
		w.Header().Set("Connection", "close") // the rest of the body may exceed what is read of it
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", retryAfter())
	}
	DiscardBody(w, r)
	writeJSON(w, status, errorBody{shown.Message})
}

// showable returns what a caller may see of an error.
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
	if part, ok := errors.AsType[store.PartAway](err); ok {
		return posthaste.Errorf(posthaste.CodeUnavailable, "the server cannot reach %s, which has some of what this is about, try again", string(part))
	}
	if errors.Is(err, store.ErrUnavailable) {
		return posthaste.Errorf(posthaste.CodeUnavailable, "the server cannot reach its database, try again")
	}
	return posthaste.Errorf(posthaste.CodeInternal, "the server failed to answer this request, see its log")
}

// logFailure logs an internal error without the path, which may contain a destination with a
// password.
func (a *api) logFailure(r *http.Request, err error) {
	level := store.LogLevel(err)
	if errors.Is(err, context.Canceled) || posthaste.ErrorCode(err) == posthaste.CodeUnavailable {
		level = slog.LevelDebug // the client left, or the reason has been logged
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

// encodeJSON returns JSON with a line break, without escaping &. It panics for a type without
// JSON form.
func encodeJSON(value any) []byte {
	var buffer jsonBuffer
	return buffer.encode(value)
}

// jsonBuffer encodes one value after another. The zero value is ready.
type jsonBuffer struct {
	buffer  bytes.Buffer
	encoder *json.Encoder // into buffer
}

// encode is encodeJSON; the result is valid until the next call.
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
