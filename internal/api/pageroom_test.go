package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"posthaste"
	"posthaste/internal/api"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// roomGate notes what is held of it.
type roomGate struct{ held, most int64 }

func (g *roomGate) Enter(_ context.Context, _ string, amount int64) error {
	g.held += amount
	g.most = max(g.most, g.held)
	return nil
}

func (g *roomGate) Leave(_ string, amount int64)        { g.held -= amount }
func (g *roomGate) Shrink(_ string, amount, rest int64) { g.held -= amount - rest }

// watchedWriter notes what is held when the client gets the first bytes of entries.
type watchedWriter struct {
	*httptest.ResponseRecorder
	gate  *roomGate
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

// TestPagesHoldWhatTheyTake has room for the largest page taken before one is read, what it
// takes held while it is written, and all given back behind it.
func TestPagesHoldWhatTheyTake(t *testing.T) {
	letter := &posthaste.DeadLetter{Message: fullMessage, Response: &posthaste.Response{Status: 500, Body: []byte("no")}}
	logged := 0
	for _, entry := range logFake().Entries {
		logged += entry.Size()
	}
	only := func() (store.EventPage, error) { return store.EventPage{Entries: logFake().Entries}, nil }
	tests := []struct {
		name, path, media string
		size              int
	}{
		{"a page of the log", "/v2/logs", "", logged},
		{"an export", "/v2/logs", "application/x-ndjson", logged},
		{"a follower", "/v2/logs?fromDate=0&toDate=1", "text/event-stream", logged},
		{"dead letters", "/v2/dlq", "", store.DeadLetterSize(letter)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			gate := &roomGate{}
			handler := newSurface(t, &published{}, func(o *api.Options) {
				o.Answers = gate
				o.Engine = withDeadLetters{letters: []*posthaste.DeadLetter{letter}}
				o.Log = eventlog.New(eventlog.Options{Store: fakeSource(only)})
			})
			r := newRequest(http.MethodGet, test.path, nil)
			r.Header.Set("Accept", test.media)
			w := &watchedWriter{ResponseRecorder: httptest.NewRecorder(), gate: gate}
			handler.ServeHTTP(w, r)
			switch {
			case w.Code != http.StatusOK || w.bytes < test.size:
				t.Errorf("%d %s", w.Code, w.Body)
			case gate.most != store.PageBytes:
				t.Errorf("%d bytes were held to read a page, want %d", gate.most, store.PageBytes)
			case w.held != int64(test.size):
				t.Errorf("%d bytes were held while %d were written", w.held, test.size)
			case gate.held != 0:
				t.Errorf("%d bytes are held afterwards", gate.held)
			}
		})
	}
}

// TestWaitingHoldsNoRoom has a follower find nothing, and wait for more.
func TestWaitingHoldsNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &roomGate{}
		handler := newSurface(t, &published{}, func(o *api.Options) {
			o.Answers = gate
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

// TestNoRoomForPages has a gate let nobody in: no page is read.
func TestNoRoomForPages(t *testing.T) {
	for _, path := range []string{"/v2/logs", "/v2/dlq"} {
		handler := newSurface(t, &published{}, func(o *api.Options) {
			o.Answers = closedGate{}
			o.Engine, o.Log = nil, nil
		})
		if got := do(handler, newRequest(http.MethodGet, path, nil)).Code; got != http.StatusServiceUnavailable {
			t.Errorf("%s: %d, want 503", path, got)
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
