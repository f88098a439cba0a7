package cli

import (
	"cmp"
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
	Config configFile `placeholder:"FILE" help:"YAML file of settings. Its keys are the names of these flags."`

	MaxBodySize     byteSize `group:"limits" default:"${body_size}" help:"Maximum size of a message body: 1B to 100MiB. Results of workflow calls may be larger; --max-response-size limits them."`
	MaxBatchSize    byteSize `group:"limits" default:"100MiB" help:"Maximum size of a batch request: 1B to 100MiB."`
	MaxResponseSize byteSize `group:"limits" default:"${body_size}" help:"Maximum size of a response that is stored: 1B to 100MiB. A longer one is truncated; in a workflow call it is an error."`
	MaxTimeout      span     `group:"limits" default:"2h" help:"Maximum duration of an attempt: 1s to 24h. A message can only ask for less."`
	MaxRetries      int      `group:"limits" default:"1000" help:"Maximum number of retries a message can ask for: 1 to 100000."`
	MaxDelay        span     `group:"limits" default:"366d" help:"Maximum delay a message can ask for: 1s to 3660d."`
	MaxQueues       int      `group:"limits" default:"0" help:"Maximum number of queues per user: 1 to 1000000, or 0 for no limit."`
	MaxParallelism  int      `group:"limits" default:"0" help:"Maximum parallelism of a queue: 1 to 1000000, or 0 for no limit."`
	MaxSchedules    int      `group:"limits" default:"0" help:"Maximum number of schedules per user: 1 to 1000000, or 0 for no limit."`
	Concurrency     int      `group:"limits" default:"4096" help:"Maximum number of attempts in flight: 1 to 100000."`

	MaxRequests    int      `group:"limits" default:"256" help:"Maximum number of API requests served at once: 1 to 100000. Others wait for up to 2s, shared fairly between users, and then get 429 or 503."`
	MaxConnections int      `group:"limits" default:"0" help:"Maximum number of client connections: 1 to 1000000, or 0 for one per 256KiB of memory, up to 10000. At the limit, a new connection replaces the one that has kept the server waiting longest."`
	MemoryLimit    byteSize `group:"limits" default:"0B" help:"Memory limit of the server: 256MiB to 1TiB, or 0B to use the environment variable GOMEMLIMIT. One eighth of it is for request bodies."`

	retentionSettings

	Region             string   `default:"EU-CENTRAL-1" help:"Value of the Region header of deliveries."`
	SignatureNotBefore bool     `help:"Set the nbf claim of signatures to the time of issue, for receivers that require it. Default: nbf is 0."`
	UseProxy           bool     `help:"Deliver through the proxy in HTTP_PROXY and HTTPS_PROXY, except to hosts in NO_PROXY."`
	CacheSize          byteSize `default:"32MiB" help:"Memory for the cache of the store: 1MiB to 1TiB."`
	DiskReserve        byteSize `default:"256MiB" help:"Free disk space at --data reserved for messages already accepted: 16MiB to 1024GiB, or 0B for none. With less free space, new messages and runs get 503."`

	ShutdownTimeout span             `default:"${shutdown_timeout}" help:"How long requests and attempts in progress may take to finish after SIGTERM. Interrupted attempts are repeated at the next start and do not count as retries."`
	MetricsQueues   int              `default:"0" help:"Number of queues that /metrics names, those that lag most: 0 to 1000. Anyone who can reach /metrics can read the names."`
	LogLevel        level            `default:"${log_level}" help:"Minimum log level: debug, info, warn or error."`
	LogFormat       telemetry.Format `default:"text" enum:"text,json" help:"Log format: text or json."`
}

// check returns a sentence about the first setting that is out of bounds. Zero would mean
// "the default" further down, except for resources.
func (s *settings) check() error {
	return cmp.Or(
		within("max-body-size", s.MaxBodySize, 1, 100<<20),
		within("max-batch-size", s.MaxBatchSize, 1, 100<<20),
		within("max-response-size", s.MaxResponseSize, 1, 100<<20),
		within("max-timeout", s.MaxTimeout, span(time.Second), span(day)),
		within("max-retries", count(s.MaxRetries), 1, 100_000),
		within("max-delay", s.MaxDelay, span(time.Second), span(3660*day)),
		within("max-queues", count(s.MaxQueues), 0, 1_000_000),
		within("max-parallelism", count(s.MaxParallelism), 0, 1_000_000),
		within("max-schedules", count(s.MaxSchedules), 0, 1_000_000),
		s.retentionSettings.check(),
		within("concurrency", count(s.Concurrency), 1, 100_000),
		within("max-requests", count(s.MaxRequests), 1, 100_000),
		within("max-connections", count(s.MaxConnections), 0, 1_000_000),
		keeping("memory-limit", s.MemoryLimit, 256<<20, 1<<40),
		within("cache-size", s.CacheSize, 1<<20, 1<<40),
		keeping("disk-reserve", s.DiskReserve, 16<<20, 1<<40),
		within("metrics-queues", count(s.MetricsQueues), 0, 1000),
		headerValue("region", s.Region),
		telemetry.CheckExport(os.Getenv),
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
		MetricsQueues:   s.MetricsQueues,
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
		return posthaste.Invalidf("%s %s is out of range: %s to %s is accepted", name, value, low, high)
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
		return posthaste.Invalidf("%s is empty: give a value, or leave the setting out for the default", name)
	}
	return nil
}
