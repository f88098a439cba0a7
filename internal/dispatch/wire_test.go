package dispatch

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"posthaste"
)

// countedConn counts writes.
type countedConn struct {
	net.Conn
	writes *atomic.Int32
}

func (c countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// Header and body of a small request leave in one write: each write is a system call and a packet.
func TestASmallRequestIsOneWrite(t *testing.T) {
	d := newTestDispatcher(t)
	dial, writes := d.direct.kept.DialContext, new(atomic.Int32)
	d.direct.kept.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return countedConn{conn, writes}, err
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	m := newMessage(receiver.URL)
	m.Body = bytes.Repeat([]byte("x"), 3000)
	for want := int32(1); want <= 3; want++ {
		if got := d.Attempt(t.Context(), m, 0); got.Class != posthaste.OutcomeDelivered {
			t.Fatal(got.Error)
		}
		if got := writes.Load(); got != want {
			t.Errorf("%d requests took %d writes", want, got)
		}
	}
}

// Contract, messages 3, U-2, U-48, U-51, decisions 1 and 25.
func TestRequestOnTheWire(t *testing.T) {
	tests := []struct {
		name    string
		message func(*posthaste.Message)
		retried int
		want    string // with HOST for the address
	}{
		{
			name:    "minimal",
			message: func(*posthaste.Message) {},
			want: lines(
				"POST /hook HTTP/1.1",
				"Host: HOST",
				"User-Agent: Upstash-QStash",
				"Content-Length: 5",
				"Upstash-Message-Id: msg_1111111111111111111112",
				"Upstash-Region: EU-CENTRAL-1",
				"Upstash-Retried: 0",
				"Upstash-Signature: the-signature",
				"", "hello"),
		},
		{
			name: "everything in the service family",
			message: func(m *posthaste.Message) {
				m.Dialect = posthaste.DialectService
				m.Method = http.MethodPut
				m.Header = http.Header{"Content-Type": {"application/json"}, "X-Many": {"1", "2"}}
				m.ScheduleID, m.URLGroup, m.Endpoint, m.Queue = "scd_1", "group", "first", "line"
				m.CallerIP = "192.0.2.7"
				m.Labels = []string{"a", "b"}
			},
			retried: 2,
			want: lines(
				"PUT /hook HTTP/1.1",
				"Host: HOST",
				"User-Agent: Posthaste/1.2.3",
				"Content-Length: 5",
				"Content-Type: application/json",
				"Service-Caller-Ip: 192.0.2.7",
				"Service-Endpoint-Name: first",
				"Service-Label: a,b",
				"Service-Message-Id: msg_1111111111111111111112",
				"Service-Queue-Name: line",
				"Service-Region: EU-CENTRAL-1",
				"Service-Retried: 2",
				"Service-Schedule-Id: scd_1",
				"Service-Signature: the-signature",
				"Service-Topic-Name: group",
				"X-Many: 1",
				"X-Many: 2",
				"", "hello"),
		},
		{
			name:    "both families",
			message: func(m *posthaste.Message) { m.Dialect = posthaste.DialectBoth },
			want: lines(
				"POST /hook HTTP/1.1",
				"Host: HOST",
				"User-Agent: Upstash-QStash",
				"Content-Length: 5",
				"Service-Message-Id: msg_1111111111111111111112",
				"Service-Region: EU-CENTRAL-1",
				"Service-Retried: 0",
				"Service-Signature: the-signature",
				"Upstash-Message-Id: msg_1111111111111111111112",
				"Upstash-Region: EU-CENTRAL-1",
				"Upstash-Retried: 0",
				"Upstash-Signature: the-signature",
				"", "hello"),
		},
		{
			name: "GET with a body",
			message: func(m *posthaste.Message) {
				m.Method = http.MethodGet
				m.Body = []byte("\x00\xff")
			},
			want: lines(
				"GET /hook HTTP/1.1",
				"Host: HOST",
				"User-Agent: Upstash-QStash",
				"Content-Length: 2",
				"Upstash-Message-Id: msg_1111111111111111111112",
				"Upstash-Region: EU-CENTRAL-1",
				"Upstash-Retried: 0",
				"Upstash-Signature: the-signature",
				"", "\x00\xff"),
		},
		{
			name:    "POST without a body",
			message: func(m *posthaste.Message) { m.Body = nil },
			want: lines(
				"POST /hook HTTP/1.1",
				"Host: HOST",
				"User-Agent: Upstash-QStash",
				"Content-Length: 0",
				"Upstash-Message-Id: msg_1111111111111111111112",
				"Upstash-Region: EU-CENTRAL-1",
				"Upstash-Retried: 0",
				"Upstash-Signature: the-signature",
				"", ""),
		},
	}
	server := newSink(t, answerOK)
	d := newTestDispatcher(t, func(o *Options) { o.Version = "1.2.3" })
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMessage("http://" + server.addr + "/hook")
			test.message(m)
			requireDelivered(t, d.Attempt(t.Context(), m, test.retried))
			want := strings.Replace(test.want, "HOST", server.addr, 1)
			if diff := cmp.Diff(want, <-server.requests); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

// Contract, U-50.
func TestRegion(t *testing.T) {
	server := newSink(t, answerOK)
	d := newTestDispatcher(t, func(o *Options) { o.Region = "US-EAST-1" })
	requireDelivered(t, d.Attempt(t.Context(), newMessage("http://"+server.addr), 0))
	if request := <-server.requests; !strings.Contains(request, "\r\nUpstash-Region: US-EAST-1\r\n") {
		t.Errorf("request %q, want its region to be US-EAST-1", request)
	}
}

// oddTargets are what may follow the authority of a URL, and what of it has to
// reach the wire.
var oddTargets = []struct{ name, suffix, want string }{
	{"nothing", "", "/"},
	{"root", "/", "/"},
	{"query without path", "?a=1", "/?a=1"},
	{"question mark alone", "/a?", "/a?"},
	{"two question marks", "/a??", "/a??"},
	{"double slash and dots", "//a/../b?x=%20", "//a/../b?x=%20"},
	{"whole URL in the path", "/https://example.com//c/./d", "/https://example.com//c/./d"},
	{"escapes keep their case", "/%2f%2F%41?q=%e4", "/%2f%2F%41?q=%e4"},
	{"sub-delimiters", "/a;b=1,2!$&'()*+@:", "/a;b=1,2!$&'()*+@:"},
	{"brackets", "/a[0]?b[1]=2", "/a[0]?b[1]=2"},
	{"braces and quotes", "/{a}|\"<b>`^\\?{c}|\"", "/{a}|\"<b>`^\\?{c}|\""},
	{"raw UTF-8", "/ä?ö=ü", "/%C3%A4?%C3%B6=%C3%BC"},
	{"bytes that are no UTF-8", "/\xff?\xfe", "/%FF?%FE"},
	{"invalid escape in the query", "/?q=%zz", "/?q=%zz"},
	{"fragment is not sent", "/a?b#c", "/a?b"},
	{"asterisk", "/*", "/*"},
}

// Contract, messages 0.6 and decision 30.
func TestTargetOnTheWire(t *testing.T) {
	server := newSink(t, answerOK)
	d := newTestDispatcher(t)
	for _, test := range oddTargets {
		t.Run(test.name, func(t *testing.T) {
			requireDelivered(t, d.Attempt(t.Context(), newMessage("http://"+server.addr+test.suffix), 0))
			line, _, _ := strings.Cut(<-server.requests, "\r\n")
			if want := "POST " + test.want + " HTTP/1.1"; line != want {
				t.Errorf("request line %q, want %q", line, want)
			}
		})
	}
}

// A path that starts with two slashes and also has bytes that belong escaped
// can be written by package http in one form only: the absolute one.
func TestTargetInAbsoluteForm(t *testing.T) {
	server := newSink(t, answerOK)
	d := newTestDispatcher(t)
	requireDelivered(t, d.Attempt(t.Context(), newMessage("http://"+server.addr+"//{a}/../b?c"), 0))
	line, _, _ := strings.Cut(<-server.requests, "\r\n")
	if want := "POST http://" + server.addr + "//{a}/../b?c HTTP/1.1"; line != want {
		t.Errorf("request line %q, want %q", line, want)
	}
}

func TestTargetOverHTTP2(t *testing.T) {
	targets := make(chan string, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		targets <- r.Proto + " " + r.RequestURI
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	d := newTestDispatcher(t, trust(server))

	tests := append(oddTargets[:len(oddTargets):len(oddTargets)],
		struct{ name, suffix, want string }{"double slash and braces", "//{a}", "//{a}"})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			requireDelivered(t, d.Attempt(t.Context(), newMessage(server.URL+test.suffix), 0))
			if got, want := <-targets, "HTTP/2.0 "+test.want; got != want {
				t.Errorf("request %q, want %q", got, want)
			}
		})
	}
}

func TestWhatCannotBeSent(t *testing.T) {
	const host = "http://127.0.0.1:1"
	tests := []struct {
		name   string
		change func(*posthaste.Message)
		want   string
	}{
		{"relative URL", func(m *posthaste.Message) { m.URL = "/hook" }, "invalid scheme"},
		{"other scheme", func(m *posthaste.Message) { m.URL = "ftp://example.com/" }, "invalid scheme"},
		{"no host", func(m *posthaste.Message) { m.URL = "http:///a" }, "no host"},
		{"space in the path", func(m *posthaste.Message) { m.URL = host + "/a b" }, "contains a space: write it as %20"},
		{"space in the query", func(m *posthaste.Message) { m.URL = host + "/?a b" }, "contains a space"},
		{"line end", func(m *posthaste.Message) { m.URL = host + "/a\r\nX: y" }, "is not a URL"},
		{"invalid escape in the path", func(m *posthaste.Message) { m.URL = host + "/%zz" }, "is not a URL"},
		{"header name", func(m *posthaste.Message) { m.Header = http.Header{"A B": {"c"}} }, `header name "A B"`},
		{"empty header name", func(m *posthaste.Message) { m.Header = http.Header{"": {"c"}} }, `header name ""`},
		{"header value", func(m *posthaste.Message) { m.Header = http.Header{"X-Secret": {"a\nb"}} }, "the value of header X-Secret has control characters"},
		{"label", func(m *posthaste.Message) { m.Labels = []string{"a\x00"} }, "the value of header Upstash-Label"},
		{"method", func(m *posthaste.Message) { m.Method = "P ST" }, `method "P ST"`},
	}
	d := newTestDispatcher(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMessage(host)
			test.change(m)
			outcome := d.Attempt(t.Context(), m, 0)
			if outcome.Class != posthaste.OutcomePermanent || !strings.Contains(outcome.Error, test.want) {
				t.Errorf("outcome %s %q, want permanent with %q", outcome.Class, outcome.Error, test.want)
			}
		})
	}
}

// Contract, U-54.
func TestSignatureIsForWhatIsSent(t *testing.T) {
	type call struct{ User, URL, Body string }
	var got call
	d := newTestDispatcher(t, func(o *Options) {
		o.Sign = func(_ context.Context, user, url string, body []byte) (string, error) {
			got = call{user, url, string(body)}
			return "s", nil
		}
	})
	server := newSink(t, answerOK)
	requireDelivered(t, d.Attempt(t.Context(), newMessage("http://"+server.addr+"//a{}?b#c"), 0))
	want := call{"user_1", "http://" + server.addr + "//a{}?b", "hello"}
	if got != want {
		t.Errorf("signed %+v, want %+v", got, want)
	}
}

// FuzzDestination checks that a URL either is refused or goes out as it is.
func FuzzDestination(f *testing.F) {
	for _, target := range oddTargets {
		f.Add("http://example.com" + target.suffix)
	}
	f.Add("http://example.com//{a}")
	f.Add("http://user:pass@example.com:80/%2F")
	d := newTestDispatcher(f)
	f.Fuzz(func(t *testing.T, raw string) {
		m := newMessage(raw)
		dest, err := d.destination(raw)
		if err != nil {
			return
		}
		req, err := d.request(t.Context(), m, dest, 0, "s")
		if err != nil {
			return // a user name that no header can carry
		}
		var wire bytes.Buffer
		if err := req.Write(&wire); err != nil {
			return // a host that is no name
		}
		line, _, _ := strings.Cut(wire.String(), "\r\n")
		origin := "POST " + targetOf(dest.signed) + " HTTP/1.1"
		absolute := "POST " + dest.url.Scheme + "://" + dest.url.Host + targetOf(dest.signed) + " HTTP/1.1"
		if line != origin && line != absolute {
			t.Errorf("request line %q for %q", line, raw)
		}
	})
}
