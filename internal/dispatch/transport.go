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
	tlsSessions  = 1024             // hosts whose TLS session is resumed
	pingInterval = 15 * time.Second // silence on an HTTP/2 connection before it is asked for a sign of life
)

// newDirectTransport returns the transport for destinations that are reached
// without a proxy. Every connection it makes has passed the policy.
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
		// All streams to a host share a connection, so one that died silently
		// would hold them all until their timeouts.
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingInterval},

		// A host in use keeps all the connections it may have: parallel
		// attempts would otherwise open and close one each.
		MaxConnsPerHost:     o.MaxConnsPerHost,
		MaxIdleConnsPerHost: o.MaxConnsPerHost,
		MaxIdleConns:        o.MaxIdleConns,
		IdleConnTimeout:     o.IdleTimeout,

		MaxResponseHeaderBytes: o.MaxResponseHeader,
		DisableCompression:     true, // an answer is kept as it was sent
	}
}

// newProxiedTransport returns the transport for requests that a proxy is meant
// for. It connects to proxies alone, which the operator chose, so the policy
// does not apply; nor does the bound per host, since all hosts share the proxy.
func newProxiedTransport(o Options) *http.Transport {
	transport := newDirectTransport(o)
	dialer := net.Dialer{Timeout: o.ConnectTimeout, Resolver: o.Resolver}
	transport.DialContext = dialer.DialContext
	transport.MaxConnsPerHost = 0
	transport.Proxy = func(req *http.Request) (*url.URL, error) {
		// A function that changes its mind since it was asked whether to come
		// here at all must not open a way around the policy.
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

// guard checks the address of each socket before it is connected, the only
// place that no name and no second lookup can pass.
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

// refusalError is a connection that the policy refused.
type refusalError struct{ kind string }

func (e *refusalError) Error() string { return "refused by the address policy: " + e.kind }
