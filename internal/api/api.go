// Package api owns the HTTP surface: which routes there are and who may use
// them, how requests become calls of the engine, and what answers look like.
//
// A handler decodes, calls, and returns a body or an error; everything else,
// from authentication to the form of an error, is done once for all of them.
// Paths are matched as they were sent, because some carry a whole URL.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/go-chi/chi/v5"

	"posthaste/internal/eventlog"
	"posthaste/internal/sign"
	"posthaste/internal/store"
)

// Engine does what requests ask for. Its methods return store.ErrNotFound for
// what does not exist for the user, and an Error for what the user can mend.
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

// Workflows starts workflow runs, moves them on and ends them. Its errors are as
// those of an Engine.
type Workflows interface {
	Runs
	FailedRuns
}

// Log reads a user's log: a page of it, all of it, or what is yet to come.
type Log interface {
	Query(ctx context.Context, user string, params url.Values, visit func(*store.Entry) error) (cursor string, err error)
	Export(ctx context.Context, user string, params url.Values) (*eventlog.Export, error)
	Follow(ctx context.Context, user string, params url.Values, last string) (*eventlog.Follower, error)
}

// Keyring keeps the signing keys of users.
type Keyring interface {
	Keys(ctx context.Context, user string) (sign.KeyPair, error)
	Rotate(ctx context.Context, user string) (sign.KeyPair, error)
}

// Authenticator knows the accepted tokens.
type Authenticator interface {
	Authenticate(presented string) (user string, readOnly, ok bool)
}

// Bounds of a request's body, in bytes.
const (
	DefaultMaxBody  = 1 << 20   // unless Options say otherwise
	LargestMaxBody  = 100 << 20 // that Options can ask for
	DefaultMaxBatch = 100 << 20 // unless Options say otherwise; no more can be asked for
)

// MaxHeader is the most bytes the headers of a request may have, and those of each message
// in one that has many.
const MaxHeader = 256 << 10

// Options configure the surface. The interfaces are required.
type Options struct {
	Engine        Engine
	Workflows     Workflows
	Log           Log
	RunLog        RunLog
	Keyring       Keyring
	Authenticator Authenticator

	// Ready says why the server does not do its work, for anybody to read; nil is
	// for one that always does.
	Ready func() error

	// MaxBody is the most bytes a message may have; 0 means DefaultMaxBody, and
	// more than LargestMaxBody means LargestMaxBody.
	MaxBody int64

	// MaxStep is the most bytes that a step of a workflow run may have, and what a run
	// returns: as much as an SDK makes of the answer to a call. Less than MaxBody means
	// MaxBody, and more than LargestMaxBody means LargestMaxBody.
	MaxStep int64

	// MaxBatch is the most bytes a request with many messages may have; 0, and
	// more than DefaultMaxBatch, mean DefaultMaxBatch.
	MaxBatch int64

	// Requests limits the requests at work, BodyBytes the memory for their bodies, PageBytes
	// the memory for pages and lists until clients have received them, and Streams the
	// responses that never end by themselves. nil is without a limit.
	Requests, BodyBytes, PageBytes, Streams Gate

	// Readers has those who read logs and dead letters take turns; nil lets all work at
	// once.
	Readers Turns

	// CheckHost says why nothing may be delivered to a host, without port and
	// brackets; nil allows every host.
	CheckHost func(host string) error

	// TrustedProxies are the networks of proxies whose X-Forwarded-For tells the
	// address of the caller.
	TrustedProxies []netip.Prefix

	// Serving ends when the server begins to stop, and with it the answers that
	// would never end by themselves; nil never ends.
	Serving context.Context

	Logger *slog.Logger // told of our own failures; nil: slog.Default()
}

// api is the handler behind New.
type api struct {
	options Options
	decoder decoder
	router  *chi.Mux
}

// New returns the handler of everything below /v2.
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
	if options.Requests == nil {
		options.Requests = openGate{}
	}
	if options.BodyBytes == nil {
		options.BodyBytes = openGate{}
	}
	if options.PageBytes == nil {
		options.PageBytes = openGate{}
	}
	if options.Readers == nil {
		options.Readers = allAtOnce{}
	}
	if options.Streams == nil {
		options.Streams = openGate{}
	}
	if options.CheckHost == nil {
		options.CheckHost = allowAll
	}
	if options.Ready == nil {
		options.Ready = func() error { return nil }
	}
	if options.Serving == nil {
		options.Serving = context.Background()
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	a := &api{options: options, decoder: decoder{checkHost: options.CheckHost}}
	a.router = a.newRouter()
	return a
}
