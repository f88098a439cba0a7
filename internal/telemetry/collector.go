package telemetry

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"posthaste"
)

// The protocols of collectors, under their standard names.
const (
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// signal is what a collector takes, as the names of its variables have it.
type signal string

const (
	signalTraces  signal = "TRACES"
	signalMetrics signal = "METRICS"
	signalLogs    signal = "LOGS"
)

// collector is where the environment wants a signal to go.
type collector struct {
	protocol string // protocolHTTP or protocolGRPC
	endpoint string // see isTarget, "" for the protocol's port of this host
}

// findCollector returns the collector that the environment names for a signal, nil if it names
// none. Variables of the signal come before those of all.
func findCollector(getenv func(string) string, of signal) (*collector, error) {
	variable, endpoint := firstSet(getenv, "OTEL_EXPORTER_OTLP_"+string(of)+"_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	switch exporter := getenv("OTEL_" + string(of) + "_EXPORTER"); {
	case strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true"), exporter == "none":
		return nil, nil
	case exporter != "" && exporter != "otlp":
		return nil, posthaste.Invalidf("OTEL_%s_EXPORTER %.100q is not otlp or none", of, exporter)
	case exporter == "" && endpoint == "":
		return nil, nil
	}
	protocol, err := findProtocol(getenv, of)
	if err != nil {
		return nil, err
	}
	if endpoint != "" && !isTarget(endpoint, protocol) {
		return nil, wrongEndpoint(variable, endpoint, protocol)
	}
	return &collector{protocol, endpoint}, nil
}

// firstSet returns the first of the variables that has a value, and the value.
func firstSet(getenv func(string) string, variables ...string) (variable, value string) {
	for _, variable := range variables {
		if value := getenv(variable); value != "" {
			return variable, value
		}
	}
	return "", ""
}

func findProtocol(getenv func(string) string, of signal) (string, error) {
	variable, protocol := firstSet(getenv, "OTEL_EXPORTER_OTLP_"+string(of)+"_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	switch protocol {
	case "":
		return protocolHTTP, nil
	case protocolHTTP, protocolGRPC:
		return protocol, nil
	}
	return "", posthaste.Invalidf("%s %.100q is not a supported protocol: %s and %s are accepted", variable, protocol, protocolHTTP, protocolGRPC)
}

// wrongEndpoint is the error about an endpoint that the exporter of the protocol would
// take, and send nothing to.
func wrongEndpoint(variable, endpoint, protocol string) error {
	if protocol == protocolGRPC {
		return posthaste.Invalidf("%s %.100q is neither a URL such as http://localhost:4317 nor HOST:PORT such as localhost:4317", variable, endpoint)
	}
	return posthaste.Invalidf("%s %.100q is not a URL such as http://localhost:4318", variable, endpoint)
}

// isTarget reports whether the exporter finds a host in an endpoint. That of gRPC takes a
// name with a port, too, which it parses as a URL: an address with a port is none, and in
// its place it would use the default.
func isTarget(endpoint, protocol string) bool {
	parsed, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return false
	case parsed.Scheme == "http", parsed.Scheme == "https":
		return parsed.Host != ""
	default:
		return protocol == protocolGRPC && isPort(parsed.Opaque) // the name is its scheme
	}
}

func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

// The exporters read the environment themselves, but where that names no endpoint they would speak
// TLS, which the specification's default, http://localhost, does not.

func (c *collector) spanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	if c.protocol == protocolGRPC {
		return otlptracegrpc.New(ctx, insecure(c, otlptracegrpc.WithInsecure)...)
	}
	return otlptracehttp.New(ctx, insecure(c, otlptracehttp.WithInsecure)...)
}

func (c *collector) metricExporter(ctx context.Context) (sdkmetric.Exporter, error) {
	if c.protocol == protocolGRPC {
		return otlpmetricgrpc.New(ctx, insecure(c, otlpmetricgrpc.WithInsecure)...)
	}
	return otlpmetrichttp.New(ctx, insecure(c, otlpmetrichttp.WithInsecure)...)
}

func (c *collector) logExporter(ctx context.Context) (sdklog.Exporter, error) {
	if c.protocol == protocolGRPC {
		return otlploggrpc.New(ctx, insecure(c, otlploggrpc.WithInsecure)...)
	}
	return otlploghttp.New(ctx, insecure(c, otlploghttp.WithInsecure)...)
}

// insecure returns the option to speak without TLS for a collector that no variable names.
func insecure[T any](c *collector, option func() T) []T {
	if c.endpoint == "" {
		return []T{option()}
	}
	return nil
}
