package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	promotel "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"posthaste"
)

// An Exporter sends what a server reports to the collectors that the standard variables of
// the environment name
// (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/).
type Exporter struct {
	getenv   func(string) string
	resource *resource.Resource
	stops    []func(context.Context) error
}

// NewExporter returns an exporter, which sends nothing yet. Failures to send are logged to the
// logger.
func NewExporter(ctx context.Context, version string, logger *slog.Logger, getenv func(string) string) (*Exporter, error) {
	described, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "posthaste"), attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("export.failed", "error", err) }))
	return &Exporter{getenv: getenv, resource: described}, nil
}

// Stop sends what was not sent yet, and no more afterwards.
func (e *Exporter) Stop(ctx context.Context) error {
	var errs []error
	for _, stop := range slices.Backward(e.stops) {
		errs = append(errs, stop(ctx))
	}
	return errors.Join(errs...)
}

// Traces returns traces that are sent, nil without a collector of them. The error is about a
// variable and has CodeInvalid, or about what it names.
func (e *Exporter) Traces(ctx context.Context) (*Traces, error) {
	collector, err := findCollector(e.getenv, signalTraces)
	if collector == nil || err != nil {
		return nil, err
	}
	sampler, err := newSampler(e.getenv("OTEL_TRACES_SAMPLER"), e.getenv("OTEL_TRACES_SAMPLER_ARG"))
	if err != nil {
		return nil, err
	}
	exporter, err := collector.spanExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	made := newTraces(sampler, sdk.WithBatcher(exporter), sdk.WithResource(e.resource))
	e.stops = append(e.stops, made.Stop)
	return made, nil
}

// Metrics sends what a gatherer has, every minute or as OTEL_METRIC_EXPORT_INTERVAL says, and
// reports whether there is a collector for it.
func (e *Exporter) Metrics(ctx context.Context, gatherer prometheus.Gatherer) (bool, error) {
	collector, err := findCollector(e.getenv, signalMetrics)
	if collector == nil || err != nil {
		return false, err
	}
	exporter, err := collector.metricExporter(ctx)
	if err != nil {
		return false, fmt.Errorf("export metrics: %w", err)
	}
	reader := sdkmetric.NewPeriodicReader(exporter, sdkmetric.WithProducer(promotel.NewMetricProducer(promotel.WithGatherer(gatherer))))
	e.stops = append(e.stops, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(e.resource)).Shutdown)
	return true, nil
}

// Logs returns a logger whose lines are sent, too: the given one without a collector of them.
func (e *Exporter) Logs(ctx context.Context, logger *slog.Logger) (*slog.Logger, error) {
	collector, err := findCollector(e.getenv, signalLogs)
	if collector == nil || err != nil {
		return logger, err
	}
	exporter, err := collector.logExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("export logs: %w", err)
	}
	provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)), sdklog.WithResource(e.resource))
	e.stops = append(e.stops, provider.Shutdown)
	sent := atLeast{otelslog.NewHandler("posthaste", otelslog.WithLoggerProvider(provider)), logger}
	return slog.New(slog.NewMultiHandler(logger.Handler(), sent)), nil
}

// atLeast is a handler of the lines that another logger has, too.
type atLeast struct {
	slog.Handler
	logger *slog.Logger
}

// Enabled implements slog.Handler.
func (h atLeast) Enabled(ctx context.Context, level slog.Level) bool {
	return h.logger.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(attrs), h.logger}
}

// WithGroup implements slog.Handler.
func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.logger}
}

// CheckExport returns an Error with CodeInvalid about the first variable of the environment that
// an Exporter would refuse.
func CheckExport(getenv func(string) string) error {
	for _, of := range []signal{signalTraces, signalMetrics, signalLogs} {
		collector, err := findCollector(getenv, of)
		if err != nil {
			return err
		}
		if of == signalTraces && collector != nil {
			if _, err := newSampler(getenv("OTEL_TRACES_SAMPLER"), getenv("OTEL_TRACES_SAMPLER_ARG")); err != nil {
				return err
			}
		}
	}
	return nil
}

// samplers are the samplers by their standard names. Those that begin with parentbased
// do what the publisher's trace does, if there is one.
var samplers = []string{
	"always_on", "always_off", "traceidratio",
	"parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio",
}

// newSampler returns the sampler of a name, "" for parentbased_always_on; argument is
// the part of the traces that a ratio takes, "" for all.
func newSampler(name, argument string) (sdk.Sampler, error) {
	if name == "" {
		name = "parentbased_always_on"
	}
	if !slices.Contains(samplers, name) {
		return nil, posthaste.Invalidf("OTEL_TRACES_SAMPLER %.100q is not one of %s", name, strings.Join(samplers, ", "))
	}
	ratio := 1.0
	if argument != "" {
		var err error
		if ratio, err = strconv.ParseFloat(argument, 64); err != nil || ratio < 0 || ratio > 1 {
			return nil, posthaste.Invalidf("OTEL_TRACES_SAMPLER_ARG %.100q is not a number from 0 to 1", argument)
		}
	}
	kind, parentBased := strings.CutPrefix(name, "parentbased_")
	sampler := map[string]sdk.Sampler{
		"always_on":    sdk.AlwaysSample(),
		"always_off":   sdk.NeverSample(),
		"traceidratio": sdk.TraceIDRatioBased(ratio),
	}[kind]
	if parentBased {
		return sdk.ParentBased(sampler), nil
	}
	return sampler, nil
}
