// Package api is the HTTP API: routes, access, decoding of requests and rendering of responses.
//
// A handler decodes, calls the engine, and returns a body or an error; the rest is common to all.
// Paths are matched as sent, because some contain a URL.
package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/go-chi/chi/v5"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/eventlog"
	"posthaste/internal/sign"
	"posthaste/internal/store"
)

// Engine executes requests. Its methods return store.ErrNotFound for what the user does not have,
// and an Error for what the user can correct.
type Engine interface {
	Publisher
	Messages
	Queues
	URLGroups
	Schedules
	FlowKeys
	DeadLetters
	Actions
	Meter
}

// Workflows executes requests about runs, with the errors of an Engine.
type Workflows interface {
	Runs
	FailedRuns
}

// Log reads a user's log: a page, an export, or new entries, or counts it.
type Log interface {
	Stats(ctx context.Context, user string, query *eventlog.StatsQuery) (*eventlog.Stats, error)
	Query(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error)
	Export(ctx context.Context, user string, query store.EventQuery) (*eventlog.Export, error)
	Follow(ctx context.Context, user string, query store.EventQuery, fromNow bool) (*eventlog.Follower, error)
}

// Keyring has the signing keys of users.
type Keyring interface {
	Keys(ctx context.Context, user string) (sign.KeyPair, error)
	Rotate(ctx context.Context, user string) (sign.KeyPair, error)
}

// Authenticator checks tokens.
type Authenticator interface {
	Authenticate(presented string) (user string, readOnly, ok bool)
}

// Limits of a request's body in bytes.
const (
	DefaultMaxBody  = 1 << 20   // default
	LargestMaxBody  = 100 << 20 // maximum
	DefaultMaxBatch = 100 << 20 // default and maximum
)

// MaxHeader limits the headers of a request, and of each message of a batch, in bytes.
const MaxHeader = wire.MaxHeader

// Options configure the API. The interfaces are required.
type Options struct {
	Engine        Engine
	Workflows     Workflows
	Log           Log
	RunLog        RunLog
	Keyring       Keyring
	Authenticator Authenticator

	// About returns what is in force for a user, but for what these options say themselves; nil:
	// nothing else.
	About func(user string) About

	// Ready returns why the server is not ready; nil: always ready. The error is public.
	Ready func() error

	// MaxBody limits a message in bytes, up to LargestMaxBody; 0: DefaultMaxBody.
	MaxBody int64

	// MaxStep limits a step or result of a run in bytes, between MaxBody and LargestMaxBody: an
	// SDK puts the response to a call into one.
	MaxStep int64

	// MaxBatch limits a batch in bytes, up to DefaultMaxBatch, which 0 means.
	MaxBatch int64

	// Requests limits the requests at work, BodyBytes the memory for their bodies, PageBytes
	// the memory for pages and lists until clients have received them, and Streams the
	// responses that never end by themselves. nil is without a limit.
	Requests, BodyBytes, PageBytes, Streams Gate

	// Readers has those who read logs and dead letters take turns; nil lets all work at
	// once.
	Readers Turns

	// CheckHost returns why a host, without port and brackets, is refused; nil: all are allowed.
	CheckHost func(host string) error

	// TrustedProxies are the proxies whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix

	// Serving ends when the server starts to stop, and with it endless responses; nil: never.
	Serving context.Context

	Logger *slog.Logger // logs internal errors; nil: slog.Default()
}

type api struct {
	options Options
	decoder wire.Decoder
	router  *chi.Mux
}

// New returns the handler for everything below /v2.
func New(options Options) http.Handler {
	if options.MaxBody <= 0 {
		options.MaxBody = DefaultMaxBody
	}
	options.MaxBody = min(options.MaxBody, LargestMaxBody)
	options.MaxStep = min(max(options.MaxStep, options.MaxBody), LargestMaxBody)
	if options.MaxBatch <= 0 {
		options.MaxBatch = DefaultMaxBatch
	}
	options.MaxBatch = min(options.MaxBatch, DefaultMaxBatch)
	if options.About == nil {
		options.About = func(string) About { return About{} }
	}
	for _, gate := range []*Gate{&options.Requests, &options.BodyBytes, &options.PageBytes, &options.Streams} {
		*gate = cmp.Or[Gate](*gate, openGate{})
	}
	options.Readers = cmp.Or[Turns](options.Readers, allAtOnce{})
	if options.CheckHost == nil {
		options.CheckHost = allowAll
	}
	if options.Ready == nil {
		options.Ready = func() error { return nil }
	}
	options.Serving = cmp.Or(options.Serving, context.Background())
	options.Logger = cmp.Or(options.Logger, slog.Default())
	a := &api{options: options, decoder: wire.Decoder{CheckHost: options.CheckHost}}
	a.router = a.newRouter()
	return a
}

func allowAll(string) error { return nil }
