package dispatch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

const (
	tlsSessions  = 1024             // cached for resumption
	pingInterval = 15 * time.Second // idle time before an HTTP/2 ping
)

// newDirectTransport returns the transport without proxy. The policy checks each connection.
func newDirectTransport(o Options) *http.Transport {
	dialer := net.Dialer{
		Timeout:        o.ConnectTimeout,
		Resolver:       o.Resolver,
		ControlContext: guard(o.Policy),
	}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: o.ConnectTimeout,
		TLSClientConfig: &tls.Config{
			RootCAs:            o.RootCAs,
			ClientSessionCache: tls.NewLRUClientSessionCache(tlsSessions),
		},
		ForceAttemptHTTP2: true,
		// All streams to a host share a connection; without pings, one that died silently would
		// block them until they time out.
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingInterval},

		// Keep all connections of a busy host, instead of opening and closing them.
		MaxConnsPerHost:     o.MaxConnsPerHost,
		MaxIdleConnsPerHost: o.MaxConnsPerHost,
		MaxIdleConns:        maxIdleConns,
		IdleConnTimeout:     idleTimeout,

		MaxResponseHeaderBytes: maxResponseHeader,
		DisableCompression:     true, // responses are stored as sent
	}
}

// newProxiedTransport returns the transport for proxies. The operator chose them, so neither the
// policy nor the limit per host applies.
func newProxiedTransport(o Options) *http.Transport {
	transport := newDirectTransport(o)
	dialer := net.Dialer{Timeout: o.ConnectTimeout, Resolver: o.Resolver}
	transport.DialContext = dialer.DialContext
	transport.MaxConnsPerHost = 0
	transport.Proxy = func(req *http.Request) (*url.URL, error) {
		// Proxy is called a second time here; if it now returns none, the policy must not be
		// bypassed.
		proxy, err := o.Proxy(req)
		if proxy == nil && err == nil {
			return nil, errNoProxy
		}
		return proxy, err
	}
	transport.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%w: %s", errProxyRefused, resp.Status)
		}
		return nil
	}
	return transport
}

var (
	errNoProxy      = errors.New("no proxy for this request")
	errProxyRefused = errors.New("proxy refused to connect")
)

// guard checks the address of each socket before it connects, which no name and no second lookup
// can bypass.
func guard(policy Policy) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		remote, err := netip.ParseAddrPort(address)
		if err != nil {
			return &refusalError{kind: "something that is no address"}
		}
		if kind := policy.refusal(remote.Addr()); kind != "" {
			return &refusalError{kind: kind}
		}
		return nil
	}
}

// refusalError means that the policy refused a connection.
type refusalError struct{ kind string }

func (e *refusalError) Error() string { return "refused by the address policy: " + e.kind }
