package telemetry

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"posthaste"
)

// The protocols that spans are exported by, under their standard names.
const (
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// collector is where the environment wants spans to go.
type collector struct {
	protocol string // protocolHTTP or protocolGRPC
	endpoint string // see isTarget, "" for the protocol's port of this host
}

// findCollector returns the collector that the environment names, nil if it names none.
// Variables of traces come before those of all signals.
func findCollector(getenv func(string) string) (*collector, error) {
	variable, endpoint := firstSet(getenv, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	switch exporter := getenv("OTEL_TRACES_EXPORTER"); {
	case strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true"), exporter == "none":
		return nil, nil
	case exporter != "" && exporter != "otlp":
		return nil, posthaste.Invalidf("OTEL_TRACES_EXPORTER %.100q is not otlp or none", exporter)
	case exporter == "" && endpoint == "":
		return nil, nil
	}
	protocol, err := findProtocol(getenv)
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

func findProtocol(getenv func(string) string) (string, error) {
	variable, protocol := firstSet(getenv, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	switch protocol {
	case "":
		return protocolHTTP, nil
	case protocolHTTP, protocolGRPC:
		return protocol, nil
	}
	return "", posthaste.Invalidf("%s %.100q is not a supported trace protocol: %s and %s are accepted", variable, protocol, protocolHTTP, protocolGRPC)
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

// newExporter returns what sends spans to the collector. It reads the environment itself,
// but where that names no endpoint it would speak TLS, which the specification's default,
// http://localhost, does not.
func (c *collector) newExporter(ctx context.Context) (sdk.SpanExporter, error) {
	switch {
	case c.protocol == protocolGRPC && c.endpoint == "":
		return otlptracegrpc.New(ctx, otlptracegrpc.WithInsecure())
	case c.protocol == protocolGRPC:
		return otlptracegrpc.New(ctx)
	case c.endpoint == "":
		return otlptracehttp.New(ctx, otlptracehttp.WithInsecure())
	}
	return otlptracehttp.New(ctx)
}
