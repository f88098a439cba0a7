package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
)

// recovering answers for a handler that panics, and logs the cause. A client that
// has a part of the answer already has its connection cut: nothing else would
// tell it that the rest is missing. http.ErrAbortHandler asks for just that and
// passes through.
func recovering(next http.Handler, logger *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &answerWriter{ResponseWriter: w}
		defer func() {
			cause := recover()
			switch {
			case cause == nil:
				return
			case cause == http.ErrAbortHandler:
				panic(cause)
			}
			// The path is left out: it may hold a destination, and that a password.
			logger.Error("request.panicked", "method", r.Method, "error", fmt.Sprint(cause), "stack", string(debug.Stack()))
			if answer.begun {
				panic(http.ErrAbortHandler)
			}
			answerError(w, http.StatusInternalServerError, "the server failed to answer this request, see its log")
		}()
		next.ServeHTTP(answer, r)
	})
}

// answerWriter remembers whether an answer was begun.
type answerWriter struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader begins the answer, unless it only informs.
func (w *answerWriter) WriteHeader(status int) {
	w.begun = w.begun || status >= http.StatusOK
	w.ResponseWriter.WriteHeader(status)
}

// Write begins the answer.
func (w *answerWriter) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}

// FlushError begins the answer, be it with nothing but its headers.
func (w *answerWriter) FlushError() error {
	w.begun = true
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach the connection.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
