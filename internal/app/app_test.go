package app

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"posthaste/internal/dispatch"
	"posthaste/internal/sign"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// token is accepted by every server of these tests.
var token = sign.Token{UserID: "ada", Password: "secret"}.Encode()

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// start starts a server on a directory and returns it with its address. It is
// stopped when the test ends.
func start(t *testing.T, data string) (*App, string) {
	t.Helper()
	listener := listen(t)
	server, err := New(t.Context(), Options{
		Listeners:    []net.Listener{listener},
		Data:         data,
		Tokens:       []string{token},
		Destinations: dispatch.Policy{Mode: dispatch.ModeAny},
		Log:          slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	return server, "http://" + listener.Addr().String()
}

// call sends a request with the token and returns the answer's status and body.
func call(t *testing.T, method, url string) (int, string) {
	t.Helper()
	return callAs(t, token, method, url)
}

// callAs is call with the token of another user.
func callAs(t *testing.T, token, method, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestPublishedIsDelivered(t *testing.T) {
	delivered := make(chan *http.Request, 1)
	destination := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { delivered <- r }))
	defer destination.Close()
	_, url := start(t, t.TempDir())

	if status, body := call(t, http.MethodPost, url+"/v2/publish/"+destination.URL+"/a//b"); status != http.StatusOK {
		t.Fatalf("publish answers %d %s", status, body)
	}
	got := <-delivered
	if got.URL.Path != "/a//b" || got.Header.Get("Upstash-Signature") == "" {
		t.Errorf("delivered %s with %v", got.URL.Path, got.Header)
	}
}

func TestOperationalEndpoints(t *testing.T) {
	_, url := start(t, t.TempDir())
	tests := map[string]struct{ path, want string }{
		"health":           {"/healthz", "ok"},
		"readiness":        {"/readyz", "ready"},
		"own metrics":      {"/metrics", "posthaste_store_bytes"},
		"process metrics":  {"/metrics", "process_resident_memory_bytes"},
		"runtime metrics":  {"/metrics", "go_goroutines"},
		"store operations": {"/metrics", "posthaste_store_sync_seconds_count"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if status, body := call(t, http.MethodGet, url+test.path); status != http.StatusOK || !strings.Contains(body, test.want) {
				t.Errorf("%s answers %d without %q: %s", test.path, status, test.want, body)
			}
		})
	}
}

func TestStopTwice(t *testing.T) {
	server, url := start(t, t.TempDir())
	for range 2 {
		if err := server.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if connection, err := net.Dial("tcp", strings.TrimPrefix(url, "http://")); err == nil {
		connection.Close()
		t.Error("the stopped server still takes connections")
	}
}

func TestStopWithoutStart(t *testing.T) {
	listener := listen(t)
	server, err := New(t.Context(), Options{Listeners: []net.Listener{listener}, Data: t.TempDir(), Tokens: []string{token}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := listener.Accept(); err == nil {
		t.Error("the listener is still open")
	}
}

// TestStopCutsOff has a destination that does not answer: when the patience of
// Stop ends the attempt is given up, and made again by the next server.
func TestStopCutsOff(t *testing.T) {
	asked, hold := make(chan struct{}, 2), make(chan struct{})
	destination := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}))
	defer destination.Close()
	defer close(hold)
	data := t.TempDir()

	server, url := start(t, data)
	if status, body := call(t, http.MethodPost, url+"/v2/publish/"+destination.URL); status != http.StatusOK {
		t.Fatalf("publish answers %d %s", status, body)
	}
	<-asked
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if err := server.Stop(impatient); err != nil {
		t.Fatal(err)
	}
	second, _ := start(t, data)
	<-asked
	if err := second.Stop(impatient); err != nil {
		t.Fatal(err)
	}
}

func TestNewFailsCleanly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken := t.TempDir()
	start(t, taken)
	tests := map[string]struct {
		options Options
		want    string
	}{
		"data is a file":        {Options{Data: file, Tokens: []string{token}}, "not a directory"},
		"data is in use":        {Options{Data: taken, Tokens: []string{token}}, "in use by another process"},
		"token that is no text": {Options{Data: t.TempDir(), Tokens: []string{"x"}}, "token"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			listener := listen(t)
			test.options.Listeners = []net.Listener{listener}
			test.options.Log = slog.New(slog.DiscardHandler)
			if _, err := New(t.Context(), test.options); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
			if _, err := listener.Accept(); err == nil {
				t.Error("the listener is still open")
			}
		})
	}
}

func TestWaitTellsOfAFailure(t *testing.T) {
	listener := listen(t)
	server, err := New(t.Context(), Options{Listeners: []net.Listener{listener}, Data: t.TempDir(), Tokens: []string{token}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Stop(context.Background()) }()
	listener.Close()
	server.Start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := server.Wait(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("error = %v, want that of the listener", err)
	}
}

func TestDataIsPrivate(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	start(t, data)
	info, err := os.Stat(data)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o700 {
		t.Errorf("mode of the data directory is %o, want 700", mode)
	}
}
