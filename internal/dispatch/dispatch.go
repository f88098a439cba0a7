// Package dispatch makes one outbound HTTP attempt of a message and tells what
// came of it.
//
// It owns the request on the wire (method, target, control headers, signature
// header), the limits an exchange is held to, the rules that turn an answer or
// a failure into a posthaste.Outcome, and the Policy on which addresses may be
// reached at all. It knows nothing of retries, queues or storage: signing and
// the reading of reset headers are handed in as functions.
//
// The package trusts neither side. A destination is bound in time, header and
// body size, is never followed to another place, and is reached only through a
// dialer that judges the address of the socket, so that no name can lead
// around the policy.
//
// One attempt is one request, as far as keeping connections alive allows. A
// kept connection that proves dead before anything was written is replaced. One
// that closes as a request is written, before the first byte of an answer, had
// most likely been closed while it was idle: the request is sent once more, over
// a new connection. The destination may have acted on the first one, as it may
// have before any retry: deliveries are made at least once. Package http itself
// does so for a request that is idempotent by definition (GET) or by the
// publisher's word (an Idempotency-Key), over other kept connections, too.
package dispatch

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"posthaste"
)

// Options configure a Dispatcher. Sign and RetryAfter are needed; the zero
// value of every other field means its default.
type Options struct {
	// Sign returns the signature of a delivery of body to url for a user.
	Sign func(ctx context.Context, user, url string, body []byte) (string, error)

	// RetryAfter reads how long a failed answer asks us to wait.
	RetryAfter func(header http.Header, now time.Time) (time.Duration, bool)

	// Trace returns the place of an attempt in a trace, which the destination is told;
	// nil means that of the message.
	Trace func(m *posthaste.Message, retried int) posthaste.TraceContext

	Policy  Policy       // which addresses may be reached; the zero value is ModeInternal without exceptions
	Version string       // of this program, for the User-Agent; "dev" by default
	Region  string       // value of the Region control header; "EU-CENTRAL-1" by default
	Log     *slog.Logger // for causes that no outcome shows; the default logger by default

	MaxTimeout        time.Duration // of a whole exchange, which a message may only shorten; 2 h by default
	MaxResponseBody   int           // bytes of an answer's body that are kept; 1 MiB by default
	MaxResponseHeader int64         // bytes of an answer's status line and headers; 64 KiB by default
	MaxResponseMemory int64         // bytes of all answers that are being read, beyond the first 64 KiB of each; 256 MiB by default

	ConnectTimeout  time.Duration // for the name, the connection, and again for TLS; 10 s by default
	IdleTimeout     time.Duration // how long an unused connection is kept; 4 s by default
	MaxConnsPerHost int           // connections open to one host; an attempt beyond waits for one; 512 by default
	MaxIdleConns    int           // unused connections kept to all hosts together; 1024 by default

	Resolver *net.Resolver  // looks names up; the system's by default
	RootCAs  *x509.CertPool // whom to trust for https; the system's by default

	// Proxy returns the proxy for a request, or nil to go without one;
	// http.ProxyFromEnvironment fits. Behind a proxy it is the proxy that
	// resolves names, so the policy judges hosts that are addresses but cannot
	// judge what a name resolves to.
	Proxy func(*http.Request) (*url.URL, error)
}

const (
	defaultVersion           = "dev"
	defaultRegion            = "EU-CENTRAL-1" // one that region-aware receivers know
	defaultMaxTimeout        = 2 * time.Hour
	defaultMaxResponseBody   = 1 << 20
	defaultMaxResponseHeader = 64 << 10
	defaultMaxResponseMemory = 256 << 20
	defaultConnectTimeout    = 10 * time.Second
	defaultMaxConnsPerHost   = 512
	defaultMaxIdleConns      = 1024

	// Common servers close an unused connection after five seconds. Closing
	// first keeps a request from crossing their goodbye on the way.
	defaultIdleTimeout = 4 * time.Second
)

func (o Options) withDefaults() Options {
	o.Version = orDefault(o.Version, defaultVersion)
	o.Region = orDefault(o.Region, defaultRegion)
	o.Log = orDefault(o.Log, slog.Default())
	o.MaxTimeout = orDefault(o.MaxTimeout, defaultMaxTimeout)
	o.MaxResponseBody = orDefault(o.MaxResponseBody, defaultMaxResponseBody)
	o.MaxResponseHeader = orDefault(o.MaxResponseHeader, defaultMaxResponseHeader)
	o.MaxResponseMemory = orDefault(o.MaxResponseMemory, defaultMaxResponseMemory)
	o.ConnectTimeout = orDefault(o.ConnectTimeout, defaultConnectTimeout)
	o.IdleTimeout = orDefault(o.IdleTimeout, defaultIdleTimeout)
	o.MaxConnsPerHost = orDefault(o.MaxConnsPerHost, defaultMaxConnsPerHost)
	o.MaxIdleConns = orDefault(o.MaxIdleConns, defaultMaxIdleConns)
	return o
}

func orDefault[T comparable](value, standard T) T {
	var zero T
	if value == zero {
		return standard
	}
	return value
}

// Dispatcher makes attempts. It may be used by many goroutines at once.
type Dispatcher struct {
	options   Options
	userAgent string     // of deliveries that carry no Upstash family
	room      room       // for the bodies of large answers
	direct    transports // dial under the policy
	proxied   transports // dial proxies only; not there without Options.Proxy
}

// New returns a Dispatcher that is ready to use.
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
	d.room.left.Store(options.MaxResponseMemory)
	if options.Proxy != nil {
		d.proxied = newTransports(newProxiedTransport(options))
	}
	return d
}

// Close closes the connections that are not in use. Call it after the last
// attempt has returned.
func (d *Dispatcher) Close() {
	d.direct.close()
	d.proxied.close()
}

// Attempt delivers the message once and returns what came of it: retried is the
// number of attempts that failed before. The message is only read.
//
// A failure is permanent when the destination says so, and when no later
// attempt could differ: the URL or a header cannot be sent over HTTP, or the
// host is an address the policy refuses. A name that resolves to a refused
// address is retryable, for names change.
//
// When ctx ends before the attempt does, the attempt is abandoned: the outcome
// is retryable, but says nothing about the destination. A caller that may
// cancel ctx looks at ctx.Err() before it uses the outcome.
//
// An answer for which there is no memory is cut, unless a callback is to tell of it and
// it is a good one: half of it must not pass for what the destination said, so the
// outcome is retryable then.
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
	memory := loan{room: &d.room}
	defer memory.giveBack()
	response, err := d.exchange(req, &memory, m.Callback != nil)
	if err != nil {
		return d.unanswered(parent, m, err, dest.url.Host, limit)
	}
	return d.judge(response)
}

// timeout returns how long the whole exchange may take.
func (d *Dispatcher) timeout(m *posthaste.Message) time.Duration {
	if m.Timeout > 0 {
		return min(m.Timeout, d.options.MaxTimeout)
	}
	return d.options.MaxTimeout
}
