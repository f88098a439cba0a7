package app

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"posthaste"
	"posthaste/internal/api"
	"posthaste/internal/backoff"
	"posthaste/internal/dispatch"
	"posthaste/internal/engine"
	"posthaste/internal/sign"
	"posthaste/internal/telemetry"
)

// newDispatcher plugs signatures, the rules of reset headers and the contexts of traces
// into a dispatcher.
func newDispatcher(options Options, keyring *sign.Keyring, trace func(*posthaste.Message, int) posthaste.TraceContext) *dispatch.Dispatcher {
	dispatcher := dispatch.Options{
		Sign:            signature(keyring, sign.NewSigner(sign.SignerOptions{StampNotBefore: options.NotBefore})),
		RetryAfter:      backoff.RetryAfter,
		Trace:           trace,
		Policy:          options.Destinations,
		Version:         Version,
		Region:          options.Region,
		Log:             options.Log,
		MaxTimeout:      options.MaxTimeout,
		MaxResponseBody: options.MaxResponseSize,

		MaxResponseMemory: memoryOf(options.MemoryLimit) / memoryParts,
	}
	if options.UseProxy {
		dispatcher.Proxy = http.ProxyFromEnvironment
	}
	return dispatch.New(dispatcher)
}

// newLimits returns what publishers may ask for.
func newLimits(options Options) engine.Limits {
	return engine.Limits{
		Retries:     options.MaxRetries,
		Delay:       options.MaxDelay,
		Timeout:     options.MaxTimeout,
		Queues:      options.MaxQueues,
		Parallelism: options.MaxParallelism,
		Schedules:   options.MaxSchedules,
	}
}

// about describes the server to users of the API.
func about(options Options) func(user string) api.About {
	return func(user string) api.About {
		keep, own := options.KeepFor[user]
		if !own {
			keep = options.Keep
		}
		return api.About{
			Version:   Version,
			Retention: api.Retention{Log: keep.Logs.Milliseconds(), DeadLetters: keep.DLQ.Milliseconds(), Runs: keep.Runs.Milliseconds(), Bytes: keep.Bytes},
			Limits: api.Limits{
				Response:    int64(options.MaxResponseSize),
				Retries:     int64(options.MaxRetries),
				Delay:       options.MaxDelay.Milliseconds(),
				Timeout:     options.MaxTimeout.Milliseconds(),
				Queues:      int64(options.MaxQueues),
				Parallelism: int64(options.MaxParallelism),
				Schedules:   int64(options.MaxSchedules),
			},
		}
	}
}

// signature returns the function that signs a delivery with the current key of
// the message's owner.
func signature(keyring *sign.Keyring, signer *sign.Signer) func(context.Context, string, string, []byte) (string, error) {
	return func(ctx context.Context, user, url string, body []byte) (string, error) {
		pair, err := keyring.Keys(ctx, user)
		if err != nil {
			return "", err
		}
		return signer.Sign(pair.Current, url, body, time.Now())
	}
}

// newRegistry returns a registry with the metrics of the process and of the Go
// runtime.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// metricsHandler shows the registry, which is asked once for all who scrape it within a
// second. A collector that fails is logged and does not hide the others.
func metricsHandler(registry *prometheus.Registry, logger *slog.Logger) http.Handler {
	return promhttp.HandlerFor(telemetry.Shared(registry), promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError,
	})
}
