package cli

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/app"
)

// TestNextFreePort starts on a taken port. If the port was given, the error names a free one;
// otherwise the server takes the free one.
func TestNextFreePort(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	c := devCommand{Port: portOf(other), LogPort: new(0)}
	var told bytes.Buffer
	listeners, err := c.listen(terminal{Err: &told}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(listeners)
	if got := portOf(listeners[0]); got <= c.Port || !strings.Contains(told.String(), "is in use by another program, so this server listens on ") {
		t.Errorf("port %d beside %d, and told %q", got, c.Port, &told)
	}
	told.Reset()
	_, err = c.listen(terminal{Err: &told}, nil, true)
	if err == nil || !strings.Contains(err.Error(), " is free, use --port ") || !strings.HasSuffix(err.Error(), other.Addr().String()) || told.Len() > 0 {
		t.Errorf("asked for the port: error %v, told %q", err, &told)
	}
}

func TestAttemptLine(t *testing.T) {
	id := posthaste.MessageID{1}
	at := time.Date(2026, 11, 25, 15, 4, 5, 0, time.Local)
	attempt := app.Attempt{
		Message:   &posthaste.Message{ID: id, URL: "http://h/p\x1b[2J"},
		StartedAt: at,
		Outcome:   posthaste.Outcome{Response: &posthaste.Response{Status: 503}, Error: "503 Service Unavailable", Duration: 34567 * time.Microsecond},
		State:     posthaste.StateRetry,
		NextAt:    at.Add(12 * time.Second),
	}
	want := "15:04:05  RETRY      503    35ms  POST   http://h/p\uFFFD[2J  " + id.String() + "  503 Service Unavailable, next in 12s"
	if got := attemptLine(attempt, false); got != want {
		t.Errorf("line\n%s, want\n%s", got, want)
	}
	if got := attemptLine(attempt, true); !strings.Contains(got, string(waiting)+"RETRY    "+normal) {
		t.Errorf("no colour in %q", got)
	}
}

// TestFeedDrops checks that a terminal that is not read delays no attempt.
func TestFeedDrops(t *testing.T) {
	held := make(chan struct{})
	out := heldWriter{held, &bytes.Buffer{}}
	f := newFeed(out)
	for range 5000 {
		f.add(app.Attempt{Message: &posthaste.Message{}})
	}
	close(held)
	f.close()
	f.close()
	if got := strings.Count(out.String(), "\n"); got >= 5000 || !strings.Contains(out.String(), " attempts not shown\n") {
		t.Errorf("%d lines, and dropped ones are not told", got)
	}
}

type heldWriter struct {
	held chan struct{}
	*bytes.Buffer
}

func (w heldWriter) Write(p []byte) (int, error) {
	<-w.held
	return w.Buffer.Write(p)
}

func TestBriefly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 1234 * time.Microsecond: "1ms", 123 * time.Microsecond: "123µs", 1260 * time.Millisecond: "1.3s",
		10 * time.Second: "10s", time.Minute: "1m", 70 * time.Second: "1m10s", time.Hour: "1h", 90 * time.Minute: "1h30m", 10 * time.Minute: "10m",
		50 * time.Second: "50s", 48 * time.Hour: "48h",
	} {
		if got := briefly(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}
