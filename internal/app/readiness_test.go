package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"posthaste/internal/store"
)

// ask returns what an endpoint answers.
func ask(handler http.Handler, method, path string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(method, path, nil))
	return recorder
}

func TestReadiness(t *testing.T) {
	broken := errors.New("secret detail")
	fine := func() error { return nil }
	pings := func(context.Context) error { return nil }
	goesOn := func() bool { return false }
	tests := map[string]struct {
		stopping    func() bool
		dispatching func() error
		ping        func(context.Context) error
		room        func() error
		status      int
		body        string
	}{
		"ready":                   {goesOn, fine, pings, fine, 200, "ready\n"},
		"no room":                 {goesOn, fine, pings, func() error { return errors.New("the disk is full") }, 200, "ready, but the disk is full\n"},
		"dispatcher stands still": {goesOn, func() error { return broken }, pings, nil, 503, "not ready: the dispatcher is not making progress\n"},
		"store refuses writes":    {goesOn, fine, func(context.Context) error { return broken }, nil, 503, "not ready: the store rejects writes\n"},
		"is stopping":             {func() bool { return true }, fine, pings, fine, 503, "not ready: the server is stopping\n"},
		"wrong clock": {goesOn, fine, func(context.Context) error {
			return fmt.Errorf("%w: %w: it is 8760h ahead", store.ErrUnavailable, store.ErrClock)
		}, nil, 503, "not ready: the clock of this node is too far from that of the database\n"},
		"store hangs": {goesOn, fine, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, nil, 503, "not ready: the store rejects writes\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &readiness{stopping: test.stopping, dispatching: test.dispatching, ping: test.ping, room: test.room, logger: slog.New(slog.DiscardHandler), now: time.Now}
				got := ask(r, http.MethodGet, "/readyz")
				if got.Code != test.status || got.Body.String() != test.body {
					t.Errorf("answer = %d %q, want %d %q", got.Code, got.Body, test.status, test.body)
				}
			})
		})
	}
}

func TestReadinessAsksTheStoreOncePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pings := 0
		r := &readiness{
			stopping:    func() bool { return false },
			dispatching: func() error { return nil },
			ping:        func(context.Context) error { pings++; return nil },
			logger:      slog.New(slog.DiscardHandler),
			now:         time.Now,
		}
		for _, step := range []struct {
			wait time.Duration
			want int
		}{{0, 1}, {0, 1}, {999 * time.Millisecond, 1}, {time.Millisecond, 2}, {time.Hour, 3}} {
			time.Sleep(step.wait)
			ask(r, http.MethodGet, "/readyz")
			if pings != step.want {
				t.Errorf("after %s the store was asked %d times, want %d", step.wait, pings, step.want)
			}
		}
	})
}

// However often somebody asks, each time that the server is not ready is one line of its log.
func TestReadinessIsLoggedWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var broken error
		r := &readiness{
			stopping:    func() bool { return false },
			dispatching: func() error { return nil },
			ping:        func(context.Context) error { return broken },
			logger:      slog.New(slog.NewTextHandler(&log, nil)),
			now:         time.Now,
		}
		for _, broken = range []error{errors.New("a"), errors.New("b"), nil, errors.New("c"), errors.New("d")} {
			ask(r, http.MethodGet, "/readyz")
			time.Sleep(time.Minute)
		}
		if lines := strings.Count(log.String(), "not.ready"); lines != 2 {
			t.Errorf("%d lines, want 2:\n%s", lines, &log)
		}
	})
}
