package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"posthaste/internal/store"
)

// A server whose database does not answer says so until it does, or until nobody wants to
// wait any more.
func TestDatabaseIsWaitedFor(t *testing.T) {
	gone := listen(t)
	database := "postgres://u:hunter2@" + gone.Addr().String() + "/d"
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	listener := listen(t)
	url := "http://" + listener.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	log := awaitingLog{awaited: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		_, err := New(ctx, Options{
			Listeners: []net.Listener{listener}, DatabaseURLs: []string{database}, Tokens: []string{token},
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		ended <- err
	}()
	tests := map[string]struct {
		method, path string
		status       int
		want         string
	}{
		"alive":     {http.MethodGet, "/healthz", http.StatusOK, "ok"},
		"live":      {http.MethodGet, "/v2/liveness", http.StatusOK, `{"live":true}`},
		"not ready": {http.MethodGet, "/readyz", http.StatusServiceUnavailable, "not ready: the database does not answer"},
		"new work":  {http.MethodPost, "/v2/publish/http://127.0.0.1:1", http.StatusServiceUnavailable, `{"error":"the server cannot reach its database yet, try again"}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status, body := call(t, test.method, url+test.path)
			if status != test.status || strings.TrimSpace(body) != test.want {
				t.Errorf("%d %s, want %d %s", status, body, test.status, test.want)
			}
		})
	}
	<-log.awaited
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("New = %v, want it cancelled", err)
	}
	if text := log.String(); !strings.Contains(text, "database.awaited") || strings.Contains(text, "hunter2") {
		t.Errorf("the log is to tell of the wait, without the password:\n%s", text)
	}
	if _, err := listener.Accept(); err == nil {
		t.Error("the listener is still open")
	}
}

// awaitingLog is a log that tells when the database is first waited for.
type awaitingLog struct {
	strings.Builder
	once    sync.Once
	awaited chan struct{}
}

func (l *awaitingLog) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "database.awaited") {
		defer l.once.Do(func() { close(l.awaited) })
	}
	return l.Builder.Write(line)
}

// A node whose clock is wrong says so while it waits, and no more when it waits for the
// database.
func TestARightClockIsWaitedFor(t *testing.T) {
	f := &front{}
	for _, step := range []struct {
		failure error
		ready   string
		work    string
	}{
		{fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrClock), "not ready: the clock of this node is too far from that of the database",
			`{"error":"this server's clock is wrong, so it handles no requests, try again"}`},
		{store.ErrUnavailable, "not ready: the database does not answer", `{"error":"the server cannot reach its database yet, try again"}`},
	} {
		f.awaits(step.failure)
		for path, want := range map[string]string{"/readyz": step.ready, "/v2/logs": step.work} {
			got := ask(f, http.MethodGet, path)
			if got.Code != http.StatusServiceUnavailable || strings.TrimSpace(got.Body.String()) != want {
				t.Errorf("%s: %d %s, want 503 %s", path, got.Code, got.Body, want)
			}
		}
	}
}
