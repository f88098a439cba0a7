package main

import (
	"io"
	"log/slog"
	"os"
	"time"

	"posthaste"
	"posthaste/internal/app"
	"posthaste/internal/telemetry"
)

// settings are those that every server has. Each has one name in three
// spellings: the flag, the environment variable POSTHASTE_ and the name in
// capitals, and the key in the file that --config names. A flag beats the
// environment, and that beats the file.
type settings struct {
	Config configFile `placeholder:"FILE" help:"YAML file of settings, whose keys are the names of these flags."`

	MaxBodySize     byteSize `group:"limits" default:"${body_size}" help:"Largest body of a message: 1B to 100MiB. A step of a workflow run may be as large as the answer to a call makes it, whatever is set here."`
	MaxBatchSize    byteSize `group:"limits" default:"100MiB" help:"Largest request with many messages: 1B to 100MiB."`
	MaxResponseSize byteSize `group:"limits" default:"${body_size}" help:"How much of a destination's answer is kept: 1B to 100MiB. The rest is cut off; a call of a workflow fails instead."`
	MaxTimeout      span     `group:"limits" default:"2h" help:"How long an attempt may take: 1s to 24h. A message can only ask for less."`
	MaxRetries      int      `group:"limits" default:"1000" help:"Most retries a message can ask for: 1 to 100000."`
	MaxDelay        span     `group:"limits" default:"366d" help:"Longest delay a message can ask for: 1s to 3660d."`
	MaxQueues       int      `group:"limits" default:"0" help:"Most queues of a user: 1 to 1000000, or 0 for any number."`
	MaxParallelism  int      `group:"limits" default:"0" help:"Highest parallelism of a queue: 1 to 1000000, or 0 for any."`
	MaxSchedules    int      `group:"limits" default:"0" help:"Most schedules of a user: 1 to 1000000, or 0 for any number."`
	Concurrency     int      `group:"limits" default:"4096" help:"Attempts in flight: 1 to 100000."`

	MaxRequests    int      `group:"limits" default:"256" help:"Requests of the API that are worked on at once: 1 to 100000. Others wait for up to 2s, users by turns, and are answered 429 or 503 then."`
	MaxConnections int      `group:"limits" default:"0" help:"Connections of clients: 1 to 1000000, or 0 for one for each 256KiB of memory, up to 10000. One more takes the place of the one that has kept the server waiting for longest."`
	MemoryLimit    byteSize `group:"limits" default:"0B" help:"Memory the server should take at most: 256MiB to 1TiB, or 0B for what the environment variable GOMEMLIMIT says. An eighth of it is for bodies of requests."`

	keepSettings

	Region             string   `default:"EU-CENTRAL-1" help:"Value of the Region header of deliveries."`
	SignatureNotBefore bool     `help:"Put the time of issue into the claim nbf of signatures, for receivers that demand it. It is 0 otherwise."`
	UseProxy           bool     `help:"Deliver through the proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name."`
	CacheSize          byteSize `default:"32MiB" help:"Memory to cache the store in: 1MiB to 1TiB."`
	DiskReserve        byteSize `default:"256MiB" help:"Space of the disk of --data that is kept for what was accepted before: 16MiB to 1024GiB, or 0B for none. When less is left, new messages and runs are refused with 503."`

	ShutdownTimeout span             `default:"${shutdown_timeout}" help:"How long requests and attempts in progress may take to finish after SIGTERM. Attempts that do not are made again at the next start, and no retry is counted."`
	LogLevel        level            `default:"info" help:"Least severe log lines to write: debug, info, warn or error."`
	LogFormat       telemetry.Format `default:"text" enum:"text,json" help:"How log lines are written: text or json."`
}

// Bounds of settings. Zero would mean "the default" further down, except for
// resources.
const (
	maxBytes       = 100 << 20
	minCache       = 1 << 20
	maxCache       = 1 << 40
	minReserve     = 16 << 20
	maxReserve     = 1 << 40
	maxTimeout     = 24 * time.Hour
	maxDelay       = 3660 * day
	maxRetries     = 100_000
	maxResources   = 1_000_000
	maxConcurrency = 100_000
	maxRequests    = 100_000
	maxClients     = 1_000_000
	minMemory      = 256 << 20
	maxMemory      = 1 << 40
)

// check returns a sentence about the first setting that is out of bounds.
func (s *settings) check() error {
	return firstError(
		within("max-body-size", s.MaxBodySize, 1, maxBytes),
		within("max-batch-size", s.MaxBatchSize, 1, maxBytes),
		within("max-response-size", s.MaxResponseSize, 1, maxBytes),
		within("max-timeout", s.MaxTimeout, span(time.Second), span(maxTimeout)),
		within("max-retries", count(s.MaxRetries), 1, maxRetries),
		within("max-delay", s.MaxDelay, span(time.Second), span(maxDelay)),
		within("max-queues", count(s.MaxQueues), 0, maxResources),
		within("max-parallelism", count(s.MaxParallelism), 0, maxResources),
		within("max-schedules", count(s.MaxSchedules), 0, maxResources),
		s.keepSettings.check(),
		within("concurrency", count(s.Concurrency), 1, maxConcurrency),
		within("max-requests", count(s.MaxRequests), 1, maxRequests),
		within("max-connections", count(s.MaxConnections), 0, maxClients),
		keeping("memory-limit", s.MemoryLimit, minMemory, maxMemory),
		within("cache-size", s.CacheSize, minCache, maxCache),
		keeping("disk-reserve", s.DiskReserve, minReserve, maxReserve),
		headerValue("region", s.Region),
		telemetry.CheckTraces(os.Getenv),
	)
}

// options returns what the settings say about a server.
func (s *settings) options(log io.Writer) app.Options {
	keepFor, _ := s.keepFor() // was checked
	return app.Options{
		CacheSize:       int64(s.CacheSize),
		DiskReserve:     int64(s.DiskReserve),
		UseProxy:        s.UseProxy,
		Region:          s.Region,
		NotBefore:       s.SignatureNotBefore,
		Concurrency:     s.Concurrency,
		MaxRetries:      s.MaxRetries,
		MaxDelay:        time.Duration(s.MaxDelay),
		MaxQueues:       s.MaxQueues,
		MaxParallelism:  s.MaxParallelism,
		MaxSchedules:    s.MaxSchedules,
		MaxBodySize:     int64(s.MaxBodySize),
		MaxBatchSize:    int64(s.MaxBatchSize),
		MaxResponseSize: int(s.MaxResponseSize),
		MaxTimeout:      time.Duration(s.MaxTimeout),
		MaxRequests:     s.MaxRequests,
		MaxConnections:  s.MaxConnections,
		MemoryLimit:     int64(s.MemoryLimit),
		Keep:            s.keep(),
		KeepFor:         keepFor,
		Log:             telemetry.NewLogger(log, slog.Level(s.LogLevel), s.LogFormat),
	}
}

// quantity is a number with a way to write it.
type quantity interface {
	~int | ~int64
	String() string
}

// within returns an error unless the value lies within bounds, which count as
// within.
func within[T quantity](name string, value, low, high T) error {
	if value < low || value > high {
		return posthaste.Invalidf("%s %s is out of bounds: %s to %s is accepted", name, value, low, high)
	}
	return nil
}

// keeping returns an error unless as much is kept as lies within bounds, or everything,
// which is 0.
func keeping[T quantity](name string, value, least, most T) error {
	if value == 0 {
		return nil
	}
	return within(name, value, least, most)
}

// headerValue returns an error unless the text can be sent in a header.
func headerValue(name, text string) error {
	for _, r := range text {
		if r < ' ' || r > '~' {
			return posthaste.Invalidf("%s %q cannot be sent in a header: printable ASCII is accepted", name, text)
		}
	}
	if text == "" {
		return posthaste.Invalidf("%s is empty: give a text, or leave the setting out for the default", name)
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
