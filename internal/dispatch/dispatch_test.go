package dispatch

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
)

// trust makes a Dispatcher accept the certificate of a test server.
func trust(server *httptest.Server) func(*Options) {
	return func(o *Options) {
		o.RootCAs = x509.NewCertPool()
		o.RootCAs.AddCert(server.Certificate())
	}
}

// Contract, messages 3.
func TestOutcomeOfAnswer(t *testing.T) {
	tests := []struct {
		name   string
		answer string
		want   posthaste.Outcome
	}{
		{
			name:   "200",
			answer: "HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 2\r\n\r\nhi",
			want: posthaste.Outcome{
				Class: posthaste.OutcomeDelivered,
				Response: &posthaste.Response{
					Status: 200,
					Header: http.Header{"X-A": {"1"}, "Content-Length": {"2"}},
					Body:   []byte("hi"),
				},
			},
		},
		{
			name:   "299 in chunks",
			answer: "HTTP/1.1 299 Fine\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
			want: posthaste.Outcome{
				Class:    posthaste.OutcomeDelivered,
				Response: &posthaste.Response{Status: 299, Header: http.Header{}, Body: []byte("hi")},
			},
		},
		{
			name:   "early hints come first",
			answer: "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
			want: posthaste.Outcome{
				Class:    posthaste.OutcomeDelivered,
				Response: &posthaste.Response{Status: 204, Header: http.Header{}},
			},
		},
		{
			name:   "compressed stays compressed",
			answer: "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b",
			want: posthaste.Outcome{
				Class: posthaste.OutcomeDelivered,
				Response: &posthaste.Response{
					Status: 200,
					Header: http.Header{"Content-Encoding": {"gzip"}, "Content-Length": {"2"}},
					Body:   []byte("\x1f\x8b"),
				},
			},
		},
		{
			name:   "500",
			answer: "HTTP/1.1 500 <b>oops</b>\r\nContent-Length: 0\r\n\r\n",
			want: posthaste.Outcome{
				Class:    posthaste.OutcomeRetryable,
				Error:    "500 Internal Server Error",
				Response: &posthaste.Response{Status: 500, Header: http.Header{"Content-Length": {"0"}}},
			},
		},
		{
			name:   "status without a name",
			answer: "HTTP/1.1 599 x\r\nContent-Length: 0\r\n\r\n",
			want: posthaste.Outcome{
				Class:    posthaste.OutcomeRetryable,
				Error:    "599",
				Response: &posthaste.Response{Status: 599, Header: http.Header{"Content-Length": {"0"}}},
			},
		},
		{
			name:   "redirect without a location",
			answer: "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
			want: posthaste.Outcome{
				Class:    posthaste.OutcomeRetryable,
				Error:    "302 Found: redirects are not followed",
				Response: &posthaste.Response{Status: 302, Header: http.Header{"Content-Length": {"0"}}},
			},
		},
		{
			name:   "switching protocols",
			answer: "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nnot an answer",
			want: posthaste.Outcome{
				Class: posthaste.OutcomeRetryable,
				Error: "101 Switching Protocols",
				Response: &posthaste.Response{
					Status: 101,
					Header: http.Header{"Connection": {"upgrade"}, "Upgrade": {"x"}},
				},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := newSink(t, test.answer)
			got := newTestDispatcher(t).Attempt(t.Context(), newMessage("http://"+server.addr), 0)
			if got.Duration <= 0 {
				t.Error("no duration")
			}
			got.Duration = 0
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// Contract, messages 3 and decision 15.
func TestNonRetryable(t *testing.T) {
	tests := []struct {
		name   string
		status int
		header http.Header
		want   posthaste.OutcomeClass
	}{
		{"upstash header", 489, http.Header{"Upstash-Nonretryable-Error": {"true"}}, posthaste.OutcomePermanent},
		{"service header", 489, http.Header{"Service-Nonretryable-Error": {"True"}}, posthaste.OutcomePermanent},
		{"no header", 489, nil, posthaste.OutcomeRetryable},
		{"header says false", 489, http.Header{"Upstash-Nonretryable-Error": {"false"}}, posthaste.OutcomeRetryable},
		{"other status", 488, http.Header{"Upstash-Nonretryable-Error": {"true"}}, posthaste.OutcomeRetryable},
		{"success", 200, http.Header{"Upstash-Nonretryable-Error": {"true"}}, posthaste.OutcomeDelivered},
	}
	d := newTestDispatcher(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := d.judge(&posthaste.Response{Status: test.status, Header: test.header})
			if got.Class != test.want {
				t.Errorf("class %s, want %s", got.Class, test.want)
			}
		})
	}
}

func TestNonRetryableHeaderOnTheWire(t *testing.T) {
	server := newSink(t, "HTTP/1.1 489 x\r\nUpstash-NonRetryable-Error: true\r\nContent-Length: 0\r\n\r\n")
	got := newTestDispatcher(t).Attempt(t.Context(), newMessage("http://"+server.addr), 0)
	if got.Class != posthaste.OutcomePermanent || got.Error != "489: the destination asks for no retry" {
		t.Errorf("outcome %s %q", got.Class, got.Error)
	}
}

// Contract, U-53.
func TestRetryAfter(t *testing.T) {
	d := newTestDispatcher(t, func(o *Options) {
		o.RetryAfter = func(header http.Header, now time.Time) (time.Duration, bool) {
			seconds, err := strconv.Atoi(header.Get("Retry-After"))
			return time.Duration(seconds) * time.Second, err == nil && !now.IsZero()
		}
	})
	tests := []struct {
		name   string
		status int
		header http.Header
		want   time.Duration
		wantOK bool
	}{
		{"failure with a header", 503, http.Header{"Retry-After": {"7"}}, 7 * time.Second, true},
		{"failure without", 503, http.Header{}, 0, false},
		{"success", 200, http.Header{"Retry-After": {"7"}}, 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := d.judge(&posthaste.Response{Status: test.status, Header: test.header})
			if got.RetryAfter != test.want || got.HasRetryAfter != test.wantOK {
				t.Errorf("retry after %s %t, want %s %t", got.RetryAfter, got.HasRetryAfter, test.want, test.wantOK)
			}
		})
	}
}

// Contract, U-52.
func TestRedirectIsNotFollowed(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	got := newTestDispatcher(t).Attempt(t.Context(), newMessage(server.URL), 0)
	if got.Class != posthaste.OutcomeRetryable || got.Response.Header.Get("Location") != "/elsewhere" {
		t.Errorf("outcome %+v", got)
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestFailedExchange(t *testing.T) {
	tests := []struct {
		name   string
		handle func(net.Conn)
		within time.Duration // 0 for what is not about time
		want   string        // with HOST for the address
	}{
		{"closed at once", func(net.Conn) {}, 0, "HOST closed the connection without a response"},
		{"closed after the request", answer(""), 0, "HOST closed the connection without a response"},
		{"reset", reset, 0, "HOST closed the connection without a response"},
		{"closed within the headers", answer("HTTP/1.1 200 OK\r\nX-A: "), 0, "HOST closed the connection without a response"},
		{"closed within the body", answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi"), 0, "HOST closed the connection before its response was complete"},
		{"closed before the body", answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), 0, "HOST closed the connection before its response was complete"},
		{"closed within a large body", answer("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\nhi"), 0, "HOST closed the connection before its response was complete"},
		{"closed within the chunks", answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhi"), 0, "HOST closed the connection before its response was complete"},
		{"no HTTP", answer("220 mail.example.com ESMTP\r\n"), 0, "HOST sent no valid HTTP response"},
		{"huge headers", answer("HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 1<<17) + "\r\n\r\n"), 0, "the response headers of HOST are too large"},
		{"silence", silence(""), 100 * time.Millisecond, "no response within 100ms"},
		{"headers and then silence", silence("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi"), 2 * time.Second, "no complete response within 2s"},
		{"endless headers", drip("HTTP/1.1 200 OK\r\n", "X"), 100 * time.Millisecond, "no response within 100ms"},
		{"endless slow body", drip("HTTP/1.1 200 OK\r\n\r\n", "x"), 2 * time.Second, "no complete response within 2s"},
	}
	d := newTestDispatcher(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			addr := serveTCP(t, test.handle)
			m := newMessage("http://" + addr + "/a")
			if m.Timeout = test.within; m.Timeout == 0 {
				m.Timeout = time.Minute
			}
			got := d.Attempt(t.Context(), m, 0)
			want := posthaste.Outcome{
				Error:    strings.Replace(test.want, "HOST", addr, 1),
				Duration: got.Duration,
				TimedOut: test.within > 0,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// answer reads what there is of the request, writes text and closes its side.
func answer(text string) func(net.Conn) {
	return func(conn net.Conn) {
		conn.Read(make([]byte, 4096))
		io.WriteString(conn, text)
		conn.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, conn)
	}
}

// reset closes the connection so that the other end sees it as broken.
func reset(conn net.Conn) {
	conn.Read(make([]byte, 1))
	conn.(*net.TCPConn).SetLinger(0)
}

// silence reads the request, writes text and then nothing until the other end
// gives up.
func silence(text string) func(net.Conn) {
	return func(conn net.Conn) {
		conn.Read(make([]byte, 4096))
		io.WriteString(conn, text)
		io.Copy(io.Discard, conn)
	}
}

// drip reads the request, writes text and then the same byte every millisecond.
func drip(text, next string) func(net.Conn) {
	return func(conn net.Conn) {
		conn.Read(make([]byte, 4096))
		io.WriteString(conn, text)
		for {
			if _, err := io.WriteString(conn, next); err != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func TestAnswerBodyIsBounded(t *testing.T) {
	const limit = 1000
	long := strings.Repeat("a", limit)
	tests := []struct {
		name          string
		handle        func(net.Conn)
		wantBody      string
		wantTruncated bool
	}{
		{"up to the limit", answer("HTTP/1.1 200 OK\r\n\r\n" + long), long, false},
		{"announced, up to the limit", answer("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + long), long, false},
		{"beyond the limit", answer("HTTP/1.1 200 OK\r\n\r\n" + long + "b"), long, true},
		{"announced, beyond the limit", answer("HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + long + "b"), long, true},
		{"endless", endless, long, true},
	}
	d := newTestDispatcher(t, func(o *Options) { o.MaxResponseBody = limit })
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := d.Attempt(t.Context(), newMessage("http://"+serveTCP(t, test.handle)), 0)
			requireDelivered(t, got)
			if string(got.Response.Body) != test.wantBody || got.Response.Truncated != test.wantTruncated {
				t.Errorf("%d bytes, truncated %t", len(got.Response.Body), got.Response.Truncated)
			}
		})
	}
}

// endless answers with a body that ends only when the connection is closed.
func endless(conn net.Conn) {
	conn.Read(make([]byte, 4096))
	text := "HTTP/1.1 200 OK\r\n\r\n"
	for {
		if _, err := io.WriteString(conn, text); err != nil {
			return
		}
		text = strings.Repeat("a", 4096)
	}
}

// Contract, messages 3.
func TestTimeoutOnlyShortens(t *testing.T) {
	d := newTestDispatcher(t, func(o *Options) { o.MaxTimeout = time.Minute })
	tests := []struct {
		name        string
		given, want time.Duration
	}{
		{"none given", 0, time.Minute},
		{"shorter", time.Second, time.Second},
		{"longer", time.Hour, time.Minute},
		{"negative", -1, time.Minute},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMessage("http://example.com")
			m.Timeout = test.given
			if got := d.timeout(m); got != test.want {
				t.Errorf("timeout %s, want %s", got, test.want)
			}
		})
	}
	if got := newTestDispatcher(t).timeout(newMessage("")); got != 2*time.Hour {
		t.Errorf("timeout %s by default, want 2h", got)
	}
}

func TestAbandonedAttempt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	addr := serveTCP(t, func(conn net.Conn) {
		conn.Read(make([]byte, 1))
		cancel()
		io.Copy(io.Discard, conn)
	})
	got := newTestDispatcher(t).Attempt(ctx, newMessage("http://"+addr), 0)
	if ctx.Err() == nil || got.Class != posthaste.OutcomeRetryable || got.Error != abandoned || got.Response != nil {
		t.Errorf("outcome %+v", got)
	}
}

func TestSigningFails(t *testing.T) {
	var log bytes.Buffer
	d := newTestDispatcher(t, func(o *Options) {
		o.Log = slog.New(slog.NewJSONHandler(&log, nil))
		o.Sign = func(ctx context.Context, _, _ string, _ []byte) (string, error) {
			return "", errors.Join(errors.New("disk on fire"), ctx.Err())
		}
	})
	m := newMessage("http://127.0.0.1:1")

	got := d.Attempt(t.Context(), m, 0)
	if got.Class != posthaste.OutcomeRetryable || got.Error != "the request could not be signed" || got.Unsigned == nil {
		t.Errorf("outcome %s %q, because of %v", got.Class, got.Error, got.Unsigned)
	}
	if text := log.String(); !strings.Contains(text, "disk on fire") || !strings.Contains(text, m.ID.String()) {
		t.Errorf("log %q", text)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := d.Attempt(ctx, m, 0); got.Error != abandoned {
		t.Errorf("outcome %q after cancellation, want %q", got.Error, abandoned)
	}
}

func TestConnectionsAreKept(t *testing.T) {
	tests := []struct {
		name   string
		answer string
	}{
		{"no body", "HTTP/1.1 204 No Content\r\n\r\n"},
		{"announced body", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"},
		{"chunked body", "HTTP/1.1 500 x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var conns atomic.Int32
			addr := serveTCP(t, func(conn net.Conn) {
				conns.Add(1)
				for {
					if n, _ := conn.Read(make([]byte, 4096)); n == 0 {
						return
					}
					io.WriteString(conn, test.answer)
				}
			})
			d := newTestDispatcher(t)
			for range 5 {
				d.Attempt(t.Context(), newMessage("http://"+addr), 0)
			}
			if n := conns.Load(); n > 2 { // net/http gives one up that its own goroutine leaves waiting for 50 ms
				t.Errorf("%d connections for 5 attempts, want 1", n)
			}
		})
	}
}

func TestConnectionsToOneHostAreBounded(t *testing.T) {
	const attempts, bound = 12, 3
	var conns, requests atomic.Int32
	full := make(chan struct{}) // closed when as many requests are being served as may be
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if requests.Add(1) == bound {
			close(full)
		}
		<-full
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	d := newTestDispatcher(t, func(o *Options) { o.MaxConnsPerHost = bound })
	for range 2 { // the second time over the connections that were kept
		var group sync.WaitGroup
		for range attempts {
			group.Go(func() {
				if got := d.Attempt(t.Context(), newMessage(server.URL), 0); got.Class != posthaste.OutcomeDelivered {
					t.Errorf("outcome %s %q", got.Class, got.Error)
				}
			})
		}
		group.Wait()
	}
	if n := conns.Load(); n != bound {
		t.Errorf("%d connections, want %d", n, bound)
	}
}

func TestDestination(t *testing.T) {
	d := newTestDispatcher(t, func(o *Options) { o.Policy = Policy{Mode: ModePublic} })
	tests := []struct {
		name, url, want string
	}{
		{"fine", "https://example.com//a", ""},
		{"no scheme", "example.com", "invalid scheme"},
		{"space", "https://example.com/a b", "contains a space"},
		{"private", "https://10.0.0.1/", `destination host "10.0.0.1" is a private address, which this server does not deliver to unless its settings destinations or allow-destinations say so`},
		{"private with port", "https://[fd00::1]:8443/", `destination host "fd00::1" is a private address`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := d.destination(test.url)
			if test.want == "" {
				if err != nil {
					t.Errorf("unexpected %v", err)
				}
				return
			}
			if posthaste.ErrorCode(err) != posthaste.CodeInvalid || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
