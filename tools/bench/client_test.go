package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// serveAddress starts a server and returns the address of messages for it.
func serveAddress(t *testing.T, handler http.HandlerFunc) address {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return address{
		host:         strings.TrimPrefix(server.URL, "http://"),
		token:        "secret",
		destinations: []string{"http://sink:1/a//b"},
		size:         512,
	}
}

func dialTest(t *testing.T, ctx context.Context, to address) *client {
	t.Helper()
	c, err := dial(ctx, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

func TestClientPublishes(t *testing.T) {
	for _, test := range []struct {
		name  string
		delay time.Duration
		want  string // the delay header
	}{
		{"at once", 0, ""},
		{"with a delay", 24 * time.Hour, "86400s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			book := newAccount()
			to := serveAddress(t, func(_ http.ResponseWriter, r *http.Request) {
				got := []string{r.Method, r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("Upstash-Delay")}
				want := []string{"POST", "/v2/publish/http://sink:1/a//b", "Bearer secret", test.want}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("request:\n%s", diff)
				}
				body, err := io.ReadAll(r.Body)
				if tag, number, _ := readStamp(body); err != nil || len(body) != 512 || tag != book.tag || number != 0 {
					t.Errorf("body = %x, %v, want 512 bytes that begin with the stamp of message 0", body, err)
				}
			})
			to.delay = test.delay
			if err := dialTest(t, t.Context(), to).publish(book); err != nil {
				t.Fatal(err)
			}
			if got := book.tally().accepted; got != 1 {
				t.Errorf("accepted = %d, want 1", got)
			}
		})
	}
}

func TestClientSendsAnotherBodyEachTime(t *testing.T) {
	var bodies [][]byte
	c := dialTest(t, t.Context(), serveAddress(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, body[stampLen:])
		_, _ = io.WriteString(w, `{"messageId":"msg_1"}`)
	}))
	book := newAccount()
	for range 2 {
		if err := c.publish(book); err != nil {
			t.Fatal(err)
		}
	}
	if len(bodies) != 2 || bytes.Equal(bodies[0], bodies[1]) {
		t.Errorf("bodies = %x, want two that differ after the stamp", bodies)
	}
}

func TestClientQuotesARefusal(t *testing.T) {
	book := newAccount()
	c := dialTest(t, t.Context(), serveAddress(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":"no such token"}`, http.StatusUnauthorized)
	}))
	err := c.publish(book)
	if err == nil || !strings.Contains(err.Error(), "401 Unauthorized") || !strings.Contains(err.Error(), "no such token") {
		t.Errorf("publish = %v, want an error with status and body", err)
	}
	if got := book.tally().accepted; got != 0 {
		t.Errorf("accepted = %d, want 0", got)
	}
}

func TestClientEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := dialTest(t, ctx, serveAddress(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices the end of a connection only then
		cancel()
		<-r.Context().Done()
	}))
	if err := c.publish(newAccount()); err == nil {
		t.Error("publish = nil, want an error when the context has ended")
	}
}

func TestDialFailsWithoutAServer(t *testing.T) {
	s, err := newSink(1)
	if err != nil {
		t.Fatal(err)
	}
	s.close()
	if _, err := dial(t.Context(), address{host: s.listeners[0].Addr().String(), size: stampLen}); err == nil {
		t.Error("dial = nil, want an error when nobody listens")
	}
}
