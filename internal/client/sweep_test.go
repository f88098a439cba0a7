package client_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"posthaste/internal/client"
)

func TestSweep(t *testing.T) {
	refused := errors.New("connection refused")
	first, last := dialed{text: `{"n":1,"cursor":"c1"}`}, dialed{text: `{"n":2}`}
	tests := []struct {
		name    string
		calls   []dialed
		asked   []string // the cursor and the time of each call
		pages   int
		failure string
	}{
		{
			name:  "page by page",
			calls: []dialed{first, last},
			asked: []string{"@00:00", "c1@00:00"},
			pages: 2,
		}, {
			name:  "asks again for a page whose answer is lost",
			calls: []dialed{first, {failure: refused}, {status: 503}, last},
			asked: []string{"@00:00", "c1@00:00", "c1@00:01", "c1@00:03"},
			pages: 2,
		}, {
			name:    "does not ask again for what is refused",
			calls:   []dialed{first, {status: 400, text: `{"error":"the token is gone"}`}},
			asked:   []string{"@00:00", "c1@00:00"},
			pages:   1,
			failure: "the server answers 400: the token is gone",
		}, {
			name:    "does not ask for ever",
			calls:   []dialed{{failure: refused}, {failure: refused}, {failure: refused}, {failure: refused}, {failure: refused}, {failure: refused}, last},
			asked:   []string{"@00:00", "@00:01", "@00:03", "@00:07", "@00:15", "@00:31"},
			failure: "no answer from http://server: connection refused",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &sweptServer{script: script{calls: test.calls}}
				c := newClientOf(t, client.Options{Server: client.Server{URL: "http://server"}, Transport: server})
				pages, failure := 0, error(nil)
				for _, err := range c.Sweep(t.Context(), client.Request{Method: http.MethodPost, Path: "/"}) {
					if failure = err; err == nil {
						pages++
					}
				}
				if pages != test.pages || !slices.Equal(server.cursors, test.asked) {
					t.Errorf("%d pages by %q, want %d by %q", pages, server.cursors, test.pages, test.asked)
				}
				if (failure == nil) != (test.failure == "") || failure != nil && failure.Error() != test.failure {
					t.Errorf("failed with %v, want %s", failure, test.failure)
				}
				if keys := slices.Compact(server.keys); len(keys) != 1 || keys[0] == "" {
					t.Errorf("idempotency keys %q, want one for the sweep", keys)
				}
			})
		})
	}
}

// sweptServer is a script that notes what is asked for.
type sweptServer struct {
	script
	cursors, keys []string
}

func (s *sweptServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.cursors = append(s.cursors, r.URL.Query().Get("cursor")+time.Now().UTC().Format("@04:05"))
	s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
	return s.script.RoundTrip(r)
}

// TestChangesAreFinished ends the context while the second page is in flight: it comes
// as a whole, and no further one is asked for.
func TestChangesAreFinished(t *testing.T) {
	type changes = func(*client.Client, context.Context, client.Request) iter.Seq2[client.Page, error]
	for name, change := range map[string]changes{"Changes": (*client.Client).Changes, "Sweep": (*client.Client).Sweep} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			asked := 0
			server := roundTrip(func(r *http.Request) (*http.Response, error) {
				if asked++; asked == 2 {
					interrupt()
				}
				if err := r.Context().Err(); err != nil {
					return nil, err
				}
				body := io.NopCloser(strings.NewReader(`{"cursor":"more"}`))
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body}, nil
			})
			c := newClientOf(t, client.Options{Server: client.Server{URL: "http://server"}, Transport: server})
			pages, failure := 0, error(nil)
			for _, err := range change(c, ctx, client.Request{Method: http.MethodPost, Path: "/"}) {
				if failure = err; err == nil {
					pages++
				}
			}
			if pages != 2 || asked != 2 || failure != client.ErrInterrupted {
				t.Errorf("%d pages of %d asked for, and %v, want 2 of 2 and %v", pages, asked, failure, client.ErrInterrupted)
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
