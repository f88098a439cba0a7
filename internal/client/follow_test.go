package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"posthaste/internal/client"
)

// dialed is what a server does when it is called once.
type dialed struct {
	failure error
	status  int    // 0: 200
	media   string // "": that of events
	text    string
	silent  bool // the text is followed by nothing, not even an end
}

// script is a server that does one thing after the other, and notes after which
// event it is asked to go on, and when.
type script struct {
	calls []dialed
	asked []string
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, r.Header.Get("Last-Event-ID")+time.Now().UTC().Format("@04:05"))
	if len(s.calls) == 0 {
		return nil, errors.New("the script is over")
	}
	call := s.calls[0]
	s.calls = s.calls[1:]
	if call.failure != nil {
		return nil, call.failure
	}
	response := &http.Response{StatusCode: max(call.status, 200), Header: http.Header{"Content-Type": {"text/event-stream"}}}
	if call.media != "" {
		response.Header.Set("Content-Type", call.media)
	}
	response.Body = io.NopCloser(strings.NewReader(call.text))
	if call.silent {
		near, far := io.Pipe()
		context.AfterFunc(r.Context(), func() { near.CloseWithError(r.Context().Err()) })
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(strings.NewReader(call.text), near), far}
	}
	return response, nil
}

func events(from, to int) string {
	var text strings.Builder
	for n := from; n <= to; n++ {
		fmt.Fprintf(&text, "id: %d\ndata: event %d\n\n", n, n)
	}
	return text.String()
}

func TestFollow(t *testing.T) {
	refused := errors.New("connection refused")
	tests := []struct {
		name    string
		calls   []dialed
		want    int      // events 1 to want
		asked   []string // the id and the time of each call
		failure string
	}{
		{
			name:  "goes on behind the last event",
			calls: []dialed{{text: events(1, 2)}, {text: events(3, 3)}, {status: 204}},
			want:  3,
			asked: []string{"@00:00", "2@00:01", "3@00:02"},
		}, {
			name:  "goes on behind a mark",
			calls: []dialed{{text: ": following\nid: 0\n\n"}, {text: events(1, 1) + ": following\nid: 9\n\n"}, {status: 204}},
			want:  1,
			asked: []string{"@00:00", "0@00:01", "9@00:02"},
		}, {
			name:  "reads half an event again",
			calls: []dialed{{text: events(1, 1) + "id: 2\ndata: ev"}, {text: events(2, 3)}, {status: 204}},
			want:  3,
			asked: []string{"@00:00", "1@00:01", "3@00:02"},
		}, {
			name:  "reads an event again whose last line is missing",
			calls: []dialed{{text: events(1, 1) + "id: 2\ndata: event 2\n"}, {text: events(2, 3)}, {status: 204}},
			want:  3,
			asked: []string{"@00:00", "1@00:01", "3@00:02"},
		}, {
			name:  "reads a large event",
			calls: []dialed{{text: "id: 1\ndata: event " + strings.Repeat("1", 1<<20) + "\n\n"}, {status: 204}},
			want:  1,
			asked: []string{"@00:00", "1@00:01"},
		}, {
			name:  "waits longer and longer for a server that is away",
			calls: []dialed{{text: events(1, 1)}, {failure: refused}, {status: 503}, {failure: refused}, {text: events(2, 2)}, {status: 204}},
			want:  2,
			asked: []string{"@00:00", "1@00:01", "1@00:03", "1@00:07", "1@00:15", "2@00:16"},
		}, {
			name:  "notices silence",
			calls: []dialed{{text: events(1, 1), silent: true}, {text: events(2, 2)}, {status: 204}},
			want:  2,
			asked: []string{"@00:00", "1@01:01", "2@01:02"},
		}, {
			name:    "gives up when it cannot begin",
			calls:   []dialed{{failure: refused}},
			asked:   []string{"@00:00"},
			failure: "no answer from http://server: connection refused",
		}, {
			name:    "gives up when it is refused",
			calls:   []dialed{{text: events(1, 1)}, {status: 401, text: `{"error":"the token is unknown"}`}},
			want:    1,
			asked:   []string{"@00:00", "1@00:01"},
			failure: "the server answers 401: the token is unknown",
		}, {
			name:    "gives up when there is no such stream",
			calls:   []dialed{{media: "application/json"}},
			asked:   []string{"@00:00"},
			failure: `the server answers 200: "application/json" and not "text/event-stream": does it have this stream?`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &script{calls: test.calls}
				got, lost, failure := follow(t, server, 100)
				if len(got) != test.want || !slices.IsSorted(got) {
					t.Errorf("got %q, want %d events", got, test.want)
				}
				if !slices.Equal(server.asked, test.asked) {
					t.Errorf("asked %q, want %q", server.asked, test.asked)
				}
				if (failure == nil) != (test.failure == "") || failure != nil && failure.Error() != test.failure {
					t.Errorf("failed with %v, want %s", failure, test.failure)
				}
				if lost < len(server.asked)-2 {
					t.Errorf("told %d times of a loss, with %d calls", lost, len(server.asked))
				}
			})
		})
	}
}

// follow follows a server until it has n events, and returns their data, how often
// it was told of a loss, and the error.
func follow(t *testing.T, server http.RoundTripper, n int) (got []string, lost int, failure error) {
	t.Helper()
	c := newClientOf(t, client.Options{
		Server:    client.Server{URL: "http://server"},
		Transport: server,
		Lost:      func(error, time.Duration) { lost++ },
	})
	for event, err := range c.Follow(t.Context(), client.Request{Path: "/v2/logs"}) {
		if failure = err; err == nil {
			got = append(got, string(event))
		}
		if len(got) == n {
			break
		}
	}
	return got, lost, failure
}

func TestFollowStops(t *testing.T) {
	t.Run("when no more is wanted", func(t *testing.T) {
		server := &script{calls: []dialed{{text: events(1, 5)}}}
		if got, lost, err := follow(t, server, 3); len(got) != 3 || lost > 0 || err != nil {
			t.Errorf("got %q, %d losses, %v, want 3 events", got, lost, err)
		}
	})
	for name, call := range map[string]dialed{"while it listens": {silent: true}, "while it waits": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &script{calls: []dialed{call}}
				c := newClientOf(t, client.Options{Server: client.Server{URL: "http://server"}, Transport: server})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
				defer cancel()
				for event, err := range c.Follow(ctx, client.Request{}) {
					t.Errorf("got %q, %v, want a quiet end", event, err)
				}
			})
		})
	}
}
