// Package dispatch makes one outbound HTTP attempt of a message and returns its outcome.
//
// It builds the request, limits the exchange, decides what a response or failure means, and owns
// the Policy of reachable addresses. Signatures and reset headers are read by functions that the
// caller provides.
//
// Neither side is trusted. Time, headers and body of a response are limited, redirects are not
// followed, and the policy checks the address of the socket, so that no name can bypass it.
//
// An attempt is one request, with an exception for kept connections: if one closes before the
// first byte of a response, it had most likely been idle-closed, and the request is sent once
// more on a new connection. The destination may have processed the first request, as before any
// retry: delivery is at least once. Package http does the same for idempotent requests.
package dispatch

import (
	"cmp"
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"posthaste"
)

// Options configure a Dispatcher. Sign and RetryAfter are required; zero values mean defaults.
type Options struct {
	// Sign returns the signature of a user's delivery.
	Sign func(ctx context.Context, user, url string, body []byte) (string, error)

	// RetryAfter reads how long to wait from a failed response.
	RetryAfter func(header http.Header, now time.Time) (time.Duration, bool)

	// Trace returns the trace context of an attempt, which is sent; nil: the message's.
	Trace func(m *posthaste.Message, retried int) posthaste.TraceContext

	Policy  Policy       // default: ModeInternal without exceptions
	Version string       // for the User-Agent; default "dev"
	Region  string       // for the Region header; default "EU-CENTRAL-1"
	Log     *slog.Logger // for errors that no outcome shows

	MaxTimeout        time.Duration // of an exchange; messages may only shorten it; default 2 h
	MaxResponseBody   int           // bytes stored of a body; default 1 MiB
	MaxResponseMemory int64         // bytes of all responses being read, beyond the first 64 KiB of each; default 256 MiB

	ConnectTimeout  time.Duration // for name and connection, and again for TLS; default 10 s
	MaxConnsPerHost int           // per host; further attempts wait; default 512

	Resolver *net.Resolver  // default: the system's
	RootCAs  *x509.CertPool // default: the system's

	// Proxy returns the proxy for a request, nil for none, like http.ProxyFromEnvironment. A
	// proxy resolves names itself, so the policy then only checks hosts that are addresses.
	Proxy func(*http.Request) (*url.URL, error)
}

const (
	defaultVersion           = "dev"
	defaultRegion            = "EU-CENTRAL-1" // known to region-aware receivers
	defaultMaxTimeout        = 2 * time.Hour
	defaultMaxResponseBody   = 1 << 20
	defaultMaxResponseMemory = 256 << 20
	defaultConnectTimeout    = 10 * time.Second
	defaultMaxConnsPerHost   = 512

	maxResponseHeader = 64 << 10 // bytes of status line and headers
	maxIdleConns      = 1024     // kept for all hosts

	// Common servers close idle connections after five seconds; the client should be first.
	idleTimeout = 4 * time.Second
)

func (o Options) withDefaults() Options {
	o.Version = cmp.Or(o.Version, defaultVersion)
	o.Region = cmp.Or(o.Region, defaultRegion)
	o.Log = cmp.Or(o.Log, slog.Default())
	o.MaxTimeout = cmp.Or(o.MaxTimeout, defaultMaxTimeout)
	o.MaxResponseBody = cmp.Or(o.MaxResponseBody, defaultMaxResponseBody)
	o.MaxResponseMemory = cmp.Or(o.MaxResponseMemory, defaultMaxResponseMemory)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, defaultConnectTimeout)
	o.MaxConnsPerHost = cmp.Or(o.MaxConnsPerHost, defaultMaxConnsPerHost)
	return o
}

// Dispatcher makes attempts. Safe for concurrent use.
type Dispatcher struct {
	options   Options
	userAgent string       // for the Service dialect
	budget    memoryBudget // for large responses
	direct    transports
	proxied   transports // unset without Options.Proxy
}

// New returns a Dispatcher.
func New(options Options) *Dispatcher {
	options = options.withDefaults()
	if options.Trace == nil {
		options.Trace = func(m *posthaste.Message, _ int) posthaste.TraceContext { return m.Trace }
	}
	d := &Dispatcher{
		options:   options,
		userAgent: "Posthaste/" + options.Version,
		direct:    newTransports(newDirectTransport(options)),
	}
	d.budget.left.Store(options.MaxResponseMemory)
	if options.Proxy != nil {
		d.proxied = newTransports(newProxiedTransport(options))
	}
	return d
}

// Close closes idle connections. Call it after the last attempt.
func (d *Dispatcher) Close() {
	d.direct.close()
	d.proxied.close()
}

// Attempt delivers a message once, without changing it. retried is the number of failed attempts
// before.
//
// A failure is permanent if the destination says so, or if no later attempt could differ: an
// invalid URL or header, or a refused address as host. A name that resolves to a refused address
// is retryable.
//
// If ctx ends first, the outcome is retryable and meaningless: callers that cancel ctx check
// ctx.Err() before using it.
//
// A response that exceeds the memory budget is truncated. A good response that a callback will
// report must be complete, so the outcome is retryable then.
func (d *Dispatcher) Attempt(ctx context.Context, m *posthaste.Message, retried int) posthaste.Outcome {
	start := time.Now()
	outcome := d.attempt(ctx, m, retried)
	outcome.Duration = time.Since(start)
	return outcome
}

func (d *Dispatcher) attempt(parent context.Context, m *posthaste.Message, retried int) posthaste.Outcome {
	dest, err := d.destination(m.URL)
	if err != nil {
		return permanent(err)
	}
	limit := d.timeout(m)
	ctx, cancel := context.WithTimeout(parent, limit)
	defer cancel()

	signature, err := d.options.Sign(ctx, m.User, dest.signed, m.Body)
	if err != nil {
		return d.unsigned(parent, m, err)
	}
	req, err := d.request(ctx, m, dest, retried, signature)
	if err != nil {
		return permanent(err)
	}
	memory := reservation{budget: &d.budget}
	defer memory.release()
	response, err := d.exchange(req, &memory, m.Callback != nil)
	if err != nil {
		return d.unanswered(parent, m, err, dest.url.Host, limit)
	}
	return d.judge(response)
}

// timeout returns the time limit of the exchange.
func (d *Dispatcher) timeout(m *posthaste.Message) time.Duration {
	if m.Timeout > 0 {
		return min(m.Timeout, d.options.MaxTimeout)
	}
	return d.options.MaxTimeout
}
