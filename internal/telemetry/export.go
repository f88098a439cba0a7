package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"posthaste"
)

// NewTraces returns traces that are exported as the standard variables of the
// environment say (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/),
// nil if they name no collector. The error is about a variable and has CodeInvalid, or
// about what it names.
func NewTraces(ctx context.Context, version string, logger *slog.Logger, getenv func(string) string) (*Traces, error) {
	collector, err := findCollector(getenv)
	if collector == nil || err != nil {
		return nil, err
	}
	sampler, err := newSampler(getenv("OTEL_TRACES_SAMPLER"), getenv("OTEL_TRACES_SAMPLER_ARG"))
	if err != nil {
		return nil, err
	}
	exporter, err := collector.newExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	described, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "posthaste"), attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("traces.failed", "error", err) }))
	return newTraces(sampler, sdk.WithBatcher(exporter), sdk.WithResource(described)), nil
}

// CheckTraces returns an Error with CodeInvalid about the first variable of the
// environment that NewTraces would refuse.
func CheckTraces(getenv func(string) string) error {
	collector, err := findCollector(getenv)
	if collector == nil || err != nil {
		return err
	}
	_, err = newSampler(getenv("OTEL_TRACES_SAMPLER"), getenv("OTEL_TRACES_SAMPLER_ARG"))
	return err
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
