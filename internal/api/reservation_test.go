package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"posthaste"
	"posthaste/internal/api"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// notingGate notes what is held of it.
type notingGate struct{ held, most int64 }

func (g *notingGate) Enter(_ context.Context, _ string, amount int64) error {
	g.held += amount
	g.most = max(g.most, g.held)
	return nil
}

func (g *notingGate) Leave(_ string, amount int64)        { g.held -= amount }
func (g *notingGate) Shrink(_ string, amount, rest int64) { g.held -= amount - rest }

// watchedWriter notes what is held when the client gets the first bytes of entries.
type watchedWriter struct {
	*httptest.ResponseRecorder
	gate  *notingGate
	held  int64
	bytes int
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	if w.bytes += len(p); w.held == 0 {
		w.held = w.gate.held
	}
	return w.ResponseRecorder.Write(p)
}

// withDeadLetters is an engine with a page of dead letters.
type withDeadLetters struct {
	fakeEngine
	letters []*posthaste.DeadLetter
}

func (e withDeadLetters) DeadLetters(context.Context, string, store.DeadLetterQuery) (store.DeadLetterPage, error) {
	return store.DeadLetterPage{DeadLetters: e.letters}, nil
}

func (e withDeadLetters) DeadLetter(context.Context, string, posthaste.DeadLetterID) (*posthaste.DeadLetter, error) {
	return e.letters[0], nil
}

// withFailedRun are workflows with one run: it has failed, and its list is known.
type withFailedRun struct {
	api.Workflows
	run    *posthaste.Run
	letter *posthaste.DeadLetter
	list   []posthaste.RunEntry
}

func (w withFailedRun) Failed(context.Context, string, store.RunQuery) (store.RunPage, error) {
	return store.RunPage{Runs: []*posthaste.Run{w.run}, DeadLetters: []*posthaste.DeadLetter{w.letter}}, nil
}

func (w withFailedRun) Entries(_ context.Context, _ string, _ workflow.RunID, reserve func(int) error) ([]posthaste.RunEntry, error) {
	size := 0
	for _, entry := range w.list {
		size += len(entry.Body)
	}
	return w.list, reserve(size)
}

// TestPagesHoldWhatTheyTake has memory for the largest page reserved before one is read, what it
// takes held while it is written, and all given back behind it.
func TestPagesHoldWhatTheyTake(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	letter := &posthaste.DeadLetter{Message: fullMessage, Response: &posthaste.Response{Status: 500, Body: []byte("no")}}
	failedEntry := *letter
	failed := *letter.Message
	failed.Run = &posthaste.RunLink{CallType: posthaste.CallStep}
	failedEntry.Message = &failed
	run := &posthaste.Run{RunRef: posthaste.RunRef{ID: "r", URL: "https://example.com/wf"}}
	list := []posthaste.RunEntry{{CallType: posthaste.CallStep, Body: make([]byte, 3*store.PageBytes)}}
	only := func() (store.EventPage, error) { return store.EventPage{Entries: logFake().Entries}, nil }
	tests := []struct {
		name, path, media string
		most, size        int // 0: as much as is written, without marks
	}{
		{"a page of the log", "/v2/logs", "", store.PageBytes, 0},
		{"an export", "/v2/logs", "application/x-ndjson", store.PageBytes, 0},
		{"a follower", "/v2/logs?fromDate=0&toDate=1", "text/event-stream", store.PageBytes, 0},
		{"dead letters", "/v2/dlq", "", store.PageBytes, 0},
		{"a dead letter", "/v2/dlq/5-0", "", store.PageBytes, store.DeadLetterSize(letter)},
		{"a message", "/v2/messages/" + plainMessage.ID.String(), "", store.PageBytes, store.MessageSize(plainMessage)},
		{"a failed run", "/v2/workflows/dlq/5-0", "", store.PageBytes, store.RunSize(run) + store.DeadLetterSize(letter)},
		{"the list of a run", "/v2/workflows/runs/r", "", len(list[0].Body), len(list[0].Body)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			gate := &notingGate{}
			handler := newSurface(t, &published{}, func(o *api.Options) {
				o.PageBytes = gate
				o.Engine = withDeadLetters{o.Engine.(fakeEngine), []*posthaste.DeadLetter{letter}}
				o.Workflows = withFailedRun{run: run, letter: &failedEntry, list: list}
				o.Log = eventlog.New(eventlog.Options{Store: fakeSource(only)})
			})
			r := newRequest(http.MethodGet, test.path, nil)
			r.Header.Set("Accept", test.media)
			w := &watchedWriter{ResponseRecorder: httptest.NewRecorder(), gate: gate}
			handler.ServeHTTP(w, r)
			if test.size == 0 {
				test.size = len(regexp.MustCompile(`: following\nid: \S+\n\n`).ReplaceAllString(w.Body.String(), ""))
			}
			switch {
			case w.Code != http.StatusOK || w.bytes < test.size:
				t.Errorf("%d %s", w.Code, w.Body)
			case gate.most != int64(test.most):
				t.Errorf("%d bytes were held to read it, want %d", gate.most, test.most)
			case w.held != int64(test.size):
				t.Errorf("%d bytes were held while %d were written", w.held, test.size)
			case gate.held != 0:
				t.Errorf("%d bytes are held afterwards", gate.held)
			}
		})
	}
}

// TestWaitingHoldsNoMemory has a follower find nothing, and wait for more.
func TestWaitingHoldsNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &notingGate{}
		handler := newSurface(t, &published{}, func(o *api.Options) {
			o.PageBytes = gate
			o.Log = eventlog.New(eventlog.Options{Store: fakeSource(func() (store.EventPage, error) { return store.EventPage{}, nil })})
		})
		read(t, handler, func(r *reader) {
			defer r.ask(t.Context(), "/v2/logs?fromDate=0", "text/event-stream", "").Body.Close()
			synctest.Wait()
			if gate.most != store.PageBytes || gate.held != 0 {
				t.Errorf("%d bytes were held to look, and %d while the follower waits", gate.most, gate.held)
			}
		})
	})
}

// TestNoMemoryForPages has a gate let nobody in: nothing is read, to be shown or to be
// changed.
func TestNoMemoryForPages(t *testing.T) {
	for _, request := range []string{
		"GET /v2/logs", "GET /v2/dlq", "GET /v2/dlq/5-0", "GET /v2/workflows/dlq/5-0",
		"GET /v2/messages/" + plainMessage.ID.String(),
		"DELETE /v2/dlq/5-0", "DELETE /v2/dlq?dlqIds=5-0", "POST /v2/dlq/retry/5-0", "POST /v2/dlq/retry?dlqIds=5-0",
	} {
		method, path, _ := strings.Cut(request, " ")
		handler := newSurface(t, &published{}, func(o *api.Options) {
			o.PageBytes = closedGate{}
			o.Engine, o.Log = fakeEngine{}, nil // which reads nothing
		})
		if got := do(handler, newRequest(method, path, nil)).Code; got != http.StatusServiceUnavailable {
			t.Errorf("%s: %d, want 503", request, got)
		}
	}
}

// closedGate lets nobody in.
type closedGate struct{}

func (closedGate) Enter(context.Context, string, int64) error {
	return posthaste.Errorf(posthaste.CodeUnavailable, "full")
}
func (closedGate) Leave(string, int64)         {}
func (closedGate) Shrink(string, int64, int64) {}
