package dispatch

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"posthaste"
)

// newResolver returns a resolver whose every name has the address that lookup
// returns then. The zero address is a name that does not exist.
func newResolver(t testing.TB, lookup func() netip.Addr) *net.Resolver {
	return newListResolver(t, func() []netip.Addr {
		if addr := lookup(); addr.IsValid() {
			return []netip.Addr{addr}
		}
		return nil
	})
}

// newListResolver is newResolver for names of any number of addresses.
func newListResolver(t testing.TB, lookup func() []netip.Addr) *net.Resolver {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-done })
	go func() {
		defer close(done)
		query := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			conn.WriteTo(answerQuery(query[:n], lookup), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// newSilentResolver returns a resolver whose name server never answers.
func newSilentResolver(t testing.TB) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case <-ctx.Done():
		case <-t.Context().Done(): // a lookup outlives the attempt it was for
		}
		return nil, os.ErrDeadlineExceeded
	}}
}

// answerQuery answers a question for IPv4 addresses with those of lookup, and any other
// with nothing.
func answerQuery(query []byte, lookup func() []netip.Addr) []byte {
	const headerSize, typeA, response, notFound = 12, 1, 0x8180, 0x8183
	end := headerSize + bytes.IndexByte(query[headerSize:], 0) + 5 // name, type and class
	answer := bytes.Clone(query[:end])
	flags, answers := uint16(response), uint16(0)
	if binary.BigEndian.Uint16(query[end-4:]) == typeA {
		for _, addr := range lookup() {
			answers++
			answer = append(answer, 0xc0, headerSize, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4)
			answer = append(answer, addr.AsSlice()...)
		}
		if answers == 0 {
			flags = notFound
		}
	}
	binary.BigEndian.PutUint16(answer[2:], flags)
	binary.BigEndian.PutUint16(answer[6:], answers)
	binary.BigEndian.PutUint16(answer[10:], 0) // no additional records
	return answer
}

func fixed(addr string) func() netip.Addr {
	return func() netip.Addr { return netip.MustParseAddr(addr) }
}

// Contract, decision 11.
func TestPolicyHoldsOnTheSocket(t *testing.T) {
	server := newSink(t, answerOK)
	_, port, _ := net.SplitHostPort(server.addr)
	tests := []struct {
		name   string
		policy Policy
		url    string
		want   posthaste.OutcomeClass
		text   string
	}{
		{"name of an allowed address", Policy{Mode: ModeAny}, "http://hook.test:" + port, posthaste.OutcomeDelivered, ""},
		{"allowed by the list", Policy{Allow: prefixes(t, "127.0.0.1")}, "http://hook.test:" + port, posthaste.OutcomeDelivered, ""},
		{
			"name of a refused address", Policy{}, "http://hook.test:" + port, posthaste.OutcomeRetryable,
			"hook.test:" + port + " resolves to a loopback address, which this server does not deliver to unless its settings destinations or allow-destinations say so",
		},
		{
			"refused address", Policy{}, "http://127.0.0.1:" + port, posthaste.OutcomePermanent,
			`destination host "127.0.0.1" is a loopback address, which this server does not deliver to unless its settings destinations or allow-destinations say so`,
		},
		{
			"refused spelling", Policy{}, "http://0x7f.1:" + port, posthaste.OutcomePermanent,
			`destination host "0x7f.1" is an ambiguous spelling of an IP address, which this server does not deliver to unless its settings destinations or allow-destinations say so`,
		},
		{
			"denied by the list", Policy{Mode: ModeAny, Deny: prefixes(t, "127.0.0.0/8")}, "http://hook.test:" + port, posthaste.OutcomeRetryable,
			"hook.test:" + port + " resolves to an address on the deny list, which this server does not deliver to unless its settings destinations or allow-destinations say so",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := newTestDispatcher(t, func(o *Options) {
				o.Policy = test.policy
				o.Resolver = newResolver(t, fixed("127.0.0.1"))
			})
			got := d.Attempt(t.Context(), newMessage(test.url), 0)
			if got.Class != test.want || got.Error != test.text {
				t.Errorf("outcome %s %q, want %s %q", got.Class, got.Error, test.want, test.text)
			}
			if reached := len(server.requests) == 1; reached != (test.want == posthaste.OutcomeDelivered) {
				t.Errorf("destination reached: %t", reached)
			}
			for len(server.requests) > 0 {
				<-server.requests
			}
		})
	}
}

// A name that changes to a forbidden address between two attempts gets no
// further than the socket.
func TestRebinding(t *testing.T) {
	server := newSink(t, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	_, port, _ := net.SplitHostPort(server.addr)
	var rebound atomic.Bool
	d := newTestDispatcher(t, func(o *Options) {
		o.Policy = Policy{Allow: prefixes(t, "127.0.0.1")}
		o.Resolver = newResolver(t, func() netip.Addr {
			if rebound.Load() {
				return netip.MustParseAddr("127.0.0.2")
			}
			return netip.MustParseAddr("127.0.0.1")
		})
	})
	m := newMessage("http://rebind.test:" + port)
	requireDelivered(t, d.Attempt(t.Context(), m, 0))
	rebound.Store(true)
	got := d.Attempt(t.Context(), m, 1)
	if got.Class != posthaste.OutcomeRetryable || !strings.Contains(got.Error, "resolves to a loopback address") {
		t.Errorf("outcome %s %q", got.Class, got.Error)
	}
}

// A name with an allowed and a forbidden address reaches the allowed one alone, in
// whichever order they come.
func TestMixedAddresses(t *testing.T) {
	server := newSink(t, answerOK)
	_, port, _ := net.SplitHostPort(server.addr)
	forbidden, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Skipf("no second address of this machine: %v", err)
	}
	defer forbidden.Close()
	allowed, denied := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	for _, addrs := range [][]netip.Addr{{allowed, denied}, {denied, allowed}, {denied, denied, allowed}} {
		d := newTestDispatcher(t, func(o *Options) {
			o.Policy = Policy{Allow: prefixes(t, "127.0.0.1")}
			o.Resolver = newListResolver(t, func() []netip.Addr { return addrs })
		})
		requireDelivered(t, d.Attempt(t.Context(), newMessage("http://mixed.test:"+port), 0))
		<-server.requests
	}
}

// Every spelling of an address that is not public, and every name that resolves to one,
// ends before a socket is connected.
func TestSpellingsReachNothing(t *testing.T) {
	server := newSink(t, answerOK)
	_, port, _ := net.SplitHostPort(server.addr)
	d := newTestDispatcher(t, func(o *Options) {
		o.Policy = Policy{Mode: ModePublic}
		o.Resolver = newResolver(t, fixed("127.0.0.1"))
	})
	for _, spelling := range append(spellings, "hook.test", "localhost", "LOCALHOST.", "a@b.test", "127.0.0.1@hook.test", "hook.test#@127.0.0.1") {
		host := strings.Trim(spelling, "[]")
		if addr, err := netip.ParseAddr(host); err == nil {
			if wantPublic(addr) {
				continue // would be asked over the network
			}
			if addr.Is6() {
				host = "[" + strings.ReplaceAll(host, "%", "%25") + "]"
			}
		}
		for _, authority := range []string{host + ":" + port, "user:secret@" + host + ":" + port} {
			got := d.Attempt(t.Context(), newMessage("http://"+authority+"/"), 0)
			if got.Class == posthaste.OutcomeDelivered || got.Response != nil {
				t.Errorf("%s was delivered to", authority)
			}
			if strings.Contains(got.Error, "secret") {
				t.Errorf("%s: the error tells the password: %s", authority, got.Error)
			}
		}
	}
	if n := len(server.requests); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestFailedConnection(t *testing.T) {
	closed := serveTCP(t, func(net.Conn) {})
	tlsServer := quietTLSServer(t)
	oldServer := oldTLSServer(t)
	plainServer := serveTCP(t, answer("HTTP/1.1 400 Bad Request\r\n\r\n"))
	silent := serveTCP(t, silence(""))
	_, tlsPort, _ := net.SplitHostPort(tlsServer.Listener.Addr().String())
	unused, err := net.Listen("tcp", "127.0.0.1:0") // last: the next to listen might get its port
	if err != nil {
		t.Fatal(err)
	}
	unused.Close()

	tests := []struct {
		name     string
		url      string
		resolver *net.Resolver
		change   func(*Options)
		want     string
	}{
		{name: "refused", url: "http://" + unused.Addr().String(), want: "connection refused by " + unused.Addr().String()},
		{name: "unknown name", url: "http://nowhere.test:8080", resolver: newResolver(t, func() netip.Addr { return netip.Addr{} }), want: "no address is known for nowhere.test:8080"},
		{name: "name server is silent", url: "http://slow.test", resolver: newSilentResolver(t), change: func(o *Options) { o.ConnectTimeout = 50 * time.Millisecond }, want: "looking up the address of slow.test took too long"},
		{name: "whole time spent on the name", url: "http://slow.test", resolver: newSilentResolver(t), change: func(o *Options) { o.MaxTimeout = 50 * time.Millisecond }, want: "no response within 50ms"},
		{name: "unknown authority", url: tlsServer.URL, want: "the certificate of HOST is signed by an unknown authority"},
		{name: "certificate of another", url: "https://other.test:" + tlsPort, resolver: newResolver(t, fixed("127.0.0.1")), change: trust(tlsServer), want: "the certificate of other.test:" + tlsPort + " is for another name"},
		{name: "no TLS", url: "https://" + plainServer, want: plainServer + " does not speak TLS"},
		{name: "closed during the handshake", url: "https://" + closed, want: closed + " closed the connection without a response"},
		{name: "silent during the handshake", url: "https://" + silent, change: func(o *Options) { o.ConnectTimeout = time.Second }, want: "the TLS handshake with HOST took too long"},
		{name: "too old TLS", url: oldServer.URL, want: "the TLS handshake with HOST failed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := newTestDispatcher(t, func(o *Options) {
				o.Resolver = test.resolver
				if test.change != nil {
					test.change(o)
				}
			})
			got := d.Attempt(t.Context(), newMessage(test.url), 0)
			want := strings.Replace(test.want, "HOST", strings.TrimPrefix(test.url, "https://"), 1)
			if got.Class != posthaste.OutcomeRetryable || got.Error != want || got.Response != nil {
				t.Errorf("outcome %s %q, want retryable %q", got.Class, got.Error, want)
			}
		})
	}
}

// quietTLSServer is a TLS server that does not log failed handshakes.
func quietTLSServer(t testing.TB) *httptest.Server {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func oldTLSServer(t testing.TB) *httptest.Server {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// Contract, U-86.
func TestProxy(t *testing.T) {
	proxy := newSink(t, answerOK)
	proxyURL := &url.URL{Scheme: "http", Host: proxy.addr}
	tests := []struct {
		name string
		url  string
		want string
	}{
		{"usual path", "http://hook.test//a?b", "POST http://hook.test//a?b HTTP/1.1"},
		{"odd path", "http://hook.test/{a}?b", "POST http://hook.test/{a}?b HTTP/1.1"},
		{"odd path with two slashes", "http://hook.test//{a}?b", "POST http://hook.test//{a}?b HTTP/1.1"},
	}
	d := newTestDispatcher(t, func(o *Options) {
		o.Policy = Policy{} // which would refuse the proxy's address as a destination
		o.Proxy = http.ProxyURL(proxyURL)
	})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			requireDelivered(t, d.Attempt(t.Context(), newMessage(test.url), 0))
			line, _, _ := strings.Cut(<-proxy.requests, "\r\n")
			if line != test.want {
				t.Errorf("request line %q, want %q", line, test.want)
			}
		})
	}
	t.Run("refused address", func(t *testing.T) {
		got := d.Attempt(t.Context(), newMessage("http://127.0.0.1/"), 0)
		if got.Class != posthaste.OutcomePermanent || len(proxy.requests) != 0 {
			t.Errorf("outcome %s %q", got.Class, got.Error)
		}
	})
}

func TestProxyIsPassedBy(t *testing.T) {
	server := newSink(t, answerOK)
	_, port, _ := net.SplitHostPort(server.addr)
	options := func(policy Policy, proxy func(*http.Request) (*url.URL, error)) func(*Options) {
		return func(o *Options) {
			o.Policy, o.Proxy, o.Resolver = policy, proxy, newResolver(t, fixed("127.0.0.1"))
		}
	}
	none := func(*http.Request) (*url.URL, error) { return nil, nil }

	t.Run("without a proxy the policy holds", func(t *testing.T) {
		d := newTestDispatcher(t, options(Policy{}, none))
		got := d.Attempt(t.Context(), newMessage("http://hook.test:"+port), 0)
		if !strings.Contains(got.Error, "resolves to a loopback address") {
			t.Errorf("outcome %s %q", got.Class, got.Error)
		}
	})
	t.Run("allowed", func(t *testing.T) {
		d := newTestDispatcher(t, options(Policy{Mode: ModeAny}, none))
		requireDelivered(t, d.Attempt(t.Context(), newMessage("http://hook.test:"+port+"/{a}"), 0))
		line, _, _ := strings.Cut(<-server.requests, "\r\n")
		if want := "POST /{a} HTTP/1.1"; line != want {
			t.Errorf("request line %q, want %q", line, want)
		}
	})
	t.Run("a changing mind opens no way around the policy", func(t *testing.T) {
		var calls atomic.Int32
		d := newTestDispatcher(t, options(Policy{}, func(*http.Request) (*url.URL, error) {
			if calls.Add(1) == 1 {
				return &url.URL{Scheme: "http", Host: "proxy.test"}, nil
			}
			return nil, nil
		}))
		got := d.Attempt(t.Context(), newMessage("http://hook.test:"+port), 0)
		if got.Class != posthaste.OutcomeRetryable || len(server.requests) != 0 {
			t.Errorf("outcome %s %q", got.Class, got.Error)
		}
	})
}

func TestProxyFails(t *testing.T) {
	refusing := serveTCP(t, func(conn net.Conn) {
		if _, err := readRawRequest(bufio.NewReader(conn)); err == nil {
			io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\n\r\n")
		}
	})
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unused.Close()
	to := func(host string) func(*http.Request) (*url.URL, error) {
		return http.ProxyURL(&url.URL{Scheme: "http", Host: host})
	}
	tests := []struct {
		name  string
		proxy func(*http.Request) (*url.URL, error)
		want  string
	}{
		{"refuses", to(refusing), "the proxy refused to connect to hook.test:443"},
		{"cannot be reached", to(unused.Addr().String()), "no connection to the proxy could be made"},
		{"has no address", to("proxy.test:1"), "no connection to the proxy could be made"},
		{"cannot be chosen", func(*http.Request) (*url.URL, error) { return nil, errors.New("bad setting") }, "no proxy could be chosen for hook.test:443"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := newTestDispatcher(t, func(o *Options) {
				o.Proxy = test.proxy
				o.Resolver = newResolver(t, func() netip.Addr { return netip.Addr{} })
			})
			got := d.Attempt(t.Context(), newMessage("https://hook.test:443"), 0)
			if got.Class != posthaste.OutcomeRetryable || got.Error != test.want {
				t.Errorf("outcome %s %q, want retryable %q", got.Class, got.Error, test.want)
			}
		})
	}
}
