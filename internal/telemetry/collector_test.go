package telemetry

import (
	"context"
	"io"
	"net"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"posthaste"
)

// TestCheckExport checks which protocols and endpoints are accepted, in which order their
// variables are read, and what is said of others.
func TestCheckExport(t *testing.T) {
	const (
		all      = "OTEL_EXPORTER_OTLP_"
		traces   = "OTEL_EXPORTER_OTLP_TRACES_"
		protocol = "PROTOCOL"
		endpoint = "ENDPOINT"
	)
	tests := map[string]struct {
		environment map[string]string
		want        string // the error
	}{
		"HTTP":                {map[string]string{all + endpoint: "http://localhost:4318", all + protocol: "http/protobuf"}, ""},
		"HTTPS with a path":   {map[string]string{all + endpoint: "https://example.com/otlp"}, ""},
		"an IPv6 address":     {map[string]string{all + endpoint: "http://[::1]:4318"}, ""},
		"gRPC":                {map[string]string{all + endpoint: "http://localhost:4317", all + protocol: "grpc"}, ""},
		"gRPC for traces":     {map[string]string{all + endpoint: "localhost:4317", traces + protocol: "grpc"}, ""},
		"gRPC but for traces": {map[string]string{all + endpoint: "http://localhost", all + protocol: "grpc", traces + protocol: "http/protobuf"}, ""},
		"gRPC without scheme": {map[string]string{all + endpoint: "collector.example:4317", all + protocol: "grpc"}, ""},
		"not read for traces": {map[string]string{all + endpoint: "?", all + protocol: "?", traces + endpoint: "http://localhost:4318", traces + protocol: "http/protobuf"}, ""},
		"read by nobody":      {map[string]string{all + endpoint: "?", all + protocol: "?", "OTEL_TRACES_EXPORTER": "none"}, ""},

		"JSON": {map[string]string{all + endpoint: "http://localhost", all + protocol: "http/json"},
			`OTEL_EXPORTER_OTLP_PROTOCOL "http/json" is not a supported protocol: http/protobuf and grpc are accepted`},
		"JSON for traces": {map[string]string{all + endpoint: "http://localhost", all + protocol: "grpc", traces + protocol: "http/json"},
			`OTEL_EXPORTER_OTLP_TRACES_PROTOCOL "http/json" is not a supported protocol: http/protobuf and grpc are accepted`},
		"HTTP without scheme": {map[string]string{all + endpoint: "localhost:4318"},
			`OTEL_EXPORTER_OTLP_ENDPOINT "localhost:4318" is not a URL such as http://localhost:4318`},
		"HTTP without scheme, for traces": {map[string]string{all + endpoint: "http://localhost", traces + endpoint: "localhost:4318"},
			`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT "localhost:4318" is not a URL such as http://localhost:4318`},
		"another scheme": {map[string]string{all + endpoint: "ftp://localhost:4318"},
			`OTEL_EXPORTER_OTLP_ENDPOINT "ftp://localhost:4318" is not a URL such as http://localhost:4318`},
		"no host": {map[string]string{all + endpoint: "http:///v1/traces"},
			`OTEL_EXPORTER_OTLP_ENDPOINT "http:///v1/traces" is not a URL such as http://localhost:4318`},
		"gRPC, an address without scheme": {map[string]string{all + endpoint: "127.0.0.1:4317", all + protocol: "grpc"},
			`OTEL_EXPORTER_OTLP_ENDPOINT "127.0.0.1:4317" is neither a URL such as http://localhost:4317 nor HOST:PORT such as localhost:4317`},
		"gRPC, no host": {map[string]string{all + endpoint: "http:4317", all + protocol: "grpc"},
			`OTEL_EXPORTER_OTLP_ENDPOINT "http:4317" is neither a URL such as http://localhost:4317 nor HOST:PORT such as localhost:4317`},
		"gRPC, no port": {map[string]string{all + endpoint: "localhost", all + protocol: "grpc"},
			`OTEL_EXPORTER_OTLP_ENDPOINT "localhost" is neither a URL such as http://localhost:4317 nor HOST:PORT such as localhost:4317`},
		"gRPC, not a port": {map[string]string{all + endpoint: "localhost:65536", all + protocol: "grpc"},
			`OTEL_EXPORTER_OTLP_ENDPOINT "localhost:65536" is neither a URL such as http://localhost:4317 nor HOST:PORT such as localhost:4317`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := CheckExport(func(name string) string {
				if name == "OTEL_METRICS_EXPORTER" || name == "OTEL_LOGS_EXPORTER" {
					return "none" // their variables are read as those of traces are
				}
				return test.environment[name]
			})
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (posthaste.ErrorCode(err) != posthaste.CodeInvalid || err.Error() != test.want):
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

// TestDefaultCollector checks that a collector of this host that no endpoint names is
// spoken to without TLS, as the specification has it.
func TestDefaultCollector(t *testing.T) {
	for protocol, address := range map[string]string{protocolHTTP: "127.0.0.1:4318", protocolGRPC: "127.0.0.1:4317"} {
		t.Run(protocol, func(t *testing.T) {
			listener, err := net.Listen("tcp", address)
			if err != nil {
				t.Skip("another program is the collector of this host:", err)
			}
			defer listener.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			exporter, err := (&collector{protocol: protocol}).spanExporter(ctx)
			if err != nil {
				t.Fatal(err)
			}
			exported := make(chan error)
			go func() { exported <- exporter.ExportSpans(ctx, tracetest.SpanStubs{{}}.Snapshots()) }()

			connection, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			begin := make([]byte, 3)
			if _, err := io.ReadFull(connection, begin); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{protocolHTTP: "POS", protocolGRPC: "PRI"}[protocol]
			if string(begin) != want {
				t.Errorf("the connection begins with %q, want %q", begin, want)
			}
			cancel()
			<-exported
		})
	}
}
