package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// arrival is what a destination sees of a delivery.
type arrival struct{ Method, Target, ContentType, Body string }

func recordArrivals(t *testing.T) (url string, arrivals chan arrival) {
	t.Helper()
	arrivals = make(chan arrival, 100)
	destination := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		arrivals <- arrival{r.Method, r.RequestURI, r.Header.Get("Content-Type"), string(body)}
	}))
	t.Cleanup(destination.Close)
	return destination.URL, arrivals
}

func TestRelayForwardsExactly(t *testing.T) {
	for _, test := range []struct {
		name, target, want string
	}{
		{"path", "/sink", "/sink"},
		{"no path", "", "/"},
		{"query", "/sink?a=1&b=%20", "/sink?a=1&b=%20"},
		{"double slashes", "/a//b///c", "/a//b///c"},
		{"dot segments", "/a/../b/./c", "/a/../b/./c"},
		{"escaped slash", "/a%2Fb", "/a%2Fb"},
		{"a URL within", "/fetch/https://example.com/x", "/fetch/https://example.com/x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			url, arrivals := recordArrivals(t)
			relay := NewRelay(slog.Default())
			request := httptest.NewRequest(http.MethodPost, "/v2/publish/"+url+test.target, strings.NewReader("\x00body\xff"))
			request.Header.Set("Content-Type", "application/x-test")
			answer := httptest.NewRecorder()
			relay.ServeHTTP(answer, request)
			if answer.Code != http.StatusOK {
				t.Fatalf("answer = %d %s, want 200", answer.Code, answer.Body)
			}
			relay.Close()
			want := arrival{http.MethodPost, test.want, "application/x-test", "\x00body\xff"}
			if diff := cmp.Diff(want, <-arrivals); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRelayForwardsEachMessageOnceBeforeItCloses(t *testing.T) {
	url, arrivals := recordArrivals(t)
	relay := NewRelay(slog.Default())
	const messages = 50
	for range messages {
		relay.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v2/publish/"+url, nil))
	}
	relay.Close()
	if got := len(arrivals); got != messages {
		t.Errorf("arrivals = %d, want %d", got, messages)
	}
}

func TestRelayRefuses(t *testing.T) {
	for _, test := range []struct {
		name, method, target string
		want                 int
	}{
		{"another path", http.MethodPost, "/v2/enqueue/q/http://example.com", http.StatusNotFound},
		{"another method", http.MethodGet, "/v2/publish/http://example.com", http.StatusNotFound},
		{"no URL", http.MethodPost, "/v2/publish/http://[", http.StatusBadRequest},
	} {
		t.Run(test.name, func(t *testing.T) {
			relay := NewRelay(slog.Default())
			defer relay.Close()
			request := httptest.NewRequest(test.method, "/", nil)
			request.RequestURI = test.target
			answer := httptest.NewRecorder()
			relay.ServeHTTP(answer, request)
			if answer.Code != test.want {
				t.Errorf("answer = %d, want %d", answer.Code, test.want)
			}
		})
	}
}

func TestRelayRefusesBodiesThatBreakOff(t *testing.T) {
	relay := NewRelay(slog.Default())
	defer relay.Close()
	request := httptest.NewRequest(http.MethodPost, "/v2/publish/http://example.com", strings.NewReader("short"))
	request.ContentLength = 100
	answer := httptest.NewRecorder()
	relay.ServeHTTP(answer, request)
	if answer.Code != http.StatusBadRequest {
		t.Errorf("answer = %d, want 400", answer.Code)
	}
}

func TestRunRelayEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := RunRelay(ctx, "127.0.0.1:0", slog.Default()); err != nil {
		t.Errorf("RunRelay = %v, want nil", err)
	}
}

func TestRunRelayNeedsItsAddress(t *testing.T) {
	taken, err := newSink(1)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.close()
	if err := RunRelay(t.Context(), taken.listeners[0].Addr().String(), slog.Default()); err == nil {
		t.Error("RunRelay on an address in use = nil, want an error")
	}
}
