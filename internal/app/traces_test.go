package app

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// spans is a collector, over HTTP and over gRPC: it keeps what is exported.
type spans struct {
	collector.UnimplementedTraceServiceServer

	mu  sync.Mutex
	all []*otlp.Span
}

func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "not what a collector takes", http.StatusBadRequest)
		return
	}
	_, _ = s.Export(r.Context(), &request) // it takes all
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (s *spans) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			s.all = append(s.all, scope.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// flow is the endpoint of a workflow of three steps: it fails once before the second,
// which publishes a message with a callback. It does not know traces, but
// hands on what it got with that message.
type flow struct {
	*testing.T
	server string // the URL of Posthaste
	self   string

	mu       sync.Mutex
	failed   bool
	contexts []string // that deliveries came with

	ended, told, broken chan struct{} // closed when that has happened
	breaking            sync.Once
}

// fail ends the test, which waits for what will not come now.
func (f *flow) fail(format string, args ...any) {
	f.Errorf(format, args...)
	f.breaking.Do(func() { close(f.broken) })
}

// wait returns when something has happened.
func (f *flow) wait(happened chan struct{}) {
	f.Helper()
	select {
	case <-happened:
	case <-f.broken:
		f.FailNow()
	}
}

func newFlow(t *testing.T, server string) *flow {
	return &flow{T: t, server: server, ended: make(chan struct{}), told: make(chan struct{}), broken: make(chan struct{})}
}

func (f *flow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.note(r)
	switch r.URL.Path {
	case "/told":
		close(f.told)
	case "/flow":
		w.Header().Set("Upstash-Workflow-Sdk-Version", "1")
		w.Header().Set("Upstash-Workflow-Sdk", "v1.3.3")
		f.step(w, r)
	}
}

func (f *flow) note(r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.contexts = append(f.contexts, r.Header.Get("Traceparent"))
}

// fails reports whether this is the delivery that fails.
func (f *flow) fails() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := !f.failed
	f.failed = true
	return first
}

func (f *flow) step(w http.ResponseWriter, r *http.Request) {
	var list []json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
		f.fail("the list of the run: %v", err)
		return
	}
	if len(list) == 2 && f.fails() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	run := r.Header.Get("Upstash-Workflow-Runid")
	const steps = 3
	switch len(list) {
	case 2:
		f.send("POST", "/v2/publish/"+f.self+"/sink", "", "Upstash-Callback: "+f.self+"/told", "traceparent: "+r.Header.Get("Traceparent"))
	case steps + 1:
		f.send("DELETE", "/v2/workflows/runs/"+run+"?cancel=false", "done")
		close(f.ended)
		return
	}
	body := fmt.Sprintf(`{"stepId":%d,"stepName":"s","stepType":"Run","out":"1","concurrent":1}`, len(list))
	f.send("POST", "/v2/publish/"+f.self+"/flow", body, "Upstash-Workflow-Runid: "+run)
}

// send sends a request that has to succeed.
func (f *flow) send(method, path, body string, header ...string) {
	request, err := http.NewRequest(method, f.server+path, strings.NewReader(body))
	if err != nil {
		f.fail("%s %s: %v", method, path, err)
		return
	}
	request.Header.Set("Authorization", "Bearer "+token)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Set(name, value)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		f.fail("%s %s: %v", method, path, err)
		return
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		text, _ := io.ReadAll(response.Body)
		f.fail("%s %s answers %d %s", method, path, response.StatusCode, text)
	}
}

// TestTraceOfRun checks that a run of three steps, one of which publishes a message
// with a callback, is one tree under the span of whoever triggered it, and that an
// attempt that repeats another one is linked to it.
func TestTraceOfRun(t *testing.T) {
	const traceID, callerID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	exported := &spans{}
	collecting := httptest.NewServer(exported)
	defer collecting.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collecting.URL)
	server, url := start(t, t.TempDir())
	f := newFlow(t, url)
	endpoint := httptest.NewServer(f)
	defer endpoint.Close()
	f.self = endpoint.URL

	f.send("POST", "/v2/trigger/"+endpoint.URL+"/flow", "payload",
		"Upstash-Retry-Delay: 1", "traceparent: 00-"+traceID+"-"+callerID+"-01")
	f.wait(f.ended)
	f.wait(f.told)
	if err := server.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}

	byID, names := map[string]*otlp.Span{}, map[string]int{}
	for _, span := range exported.all {
		byID[hex.EncodeToString(span.SpanId)] = span
		names[span.Name]++
	}
	if got, want := fmt.Sprint(names), "map[callback:1 deliver:1 publish:2 step init:1 step s:4]"; got != want {
		t.Errorf("spans %s, want %s", got, want)
	}
	links := 0
	for id, span := range byID {
		if got := hex.EncodeToString(span.TraceId); got != traceID {
			t.Errorf("span %s is in trace %s", span.Name, got)
		}
		parent := hex.EncodeToString(span.ParentSpanId)
		if byID[parent] == nil && parent != callerID {
			t.Errorf("span %s %s has no parent in the tree", span.Name, id)
		}
		for _, link := range span.Links {
			links++
			if of := byID[hex.EncodeToString(link.SpanId)]; of == nil || of.Status.Code != otlp.Status_STATUS_CODE_ERROR || of.ParentSpanId == nil {
				t.Errorf("span %s is linked to %v, want the attempt that failed", span.Name, of)
			}
		}
	}
	if links != 1 {
		t.Errorf("%d links, want that of the retry", links)
	}
	for _, context := range f.contexts {
		if parts := strings.Split(context, "-"); len(parts) != 4 || byID[parts[2]] == nil {
			t.Errorf("a delivery came with %q, which is the context of no attempt", context)
		}
	}
}

// TestTraceOverGRPC checks that a collector that knows gRPC alone gets the spans of a
// delivery, whether its endpoint has a scheme or a variable says what that would.
func TestTraceOverGRPC(t *testing.T) {
	tests := map[string]struct{ scheme, insecure string }{
		"by a URL":                {"http://", ""},
		"by a name with its port": {"", "true"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			exported, collecting, listener := &spans{}, grpc.NewServer(), listen(t)
			collector.RegisterTraceServiceServer(collecting, exported)
			go func() { _ = collecting.Serve(listener) }()
			defer collecting.Stop()
			_, port, _ := net.SplitHostPort(listener.Addr().String())
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", test.scheme+"localhost:"+port)
			t.Setenv("OTEL_EXPORTER_OTLP_INSECURE", test.insecure)
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
			server, url := start(t, t.TempDir())
			f := newFlow(t, url)
			endpoint := httptest.NewServer(f)
			defer endpoint.Close()

			f.send("POST", "/v2/publish/"+endpoint.URL+"/told", "")
			f.wait(f.told)
			if err := server.Stop(context.Background()); err != nil {
				t.Fatal(err)
			}
			names := map[string]int{}
			for _, span := range exported.all {
				names[span.Name]++
			}
			if got, want := fmt.Sprint(names), "map[deliver:1 publish:1]"; got != want {
				t.Errorf("spans %s, want %s", got, want)
			}
		})
	}
}

// TestTraceWithoutCollector checks that what a publisher says goes through a server
// that makes no spans.
func TestTraceWithoutCollector(t *testing.T) {
	const given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	contexts := make(chan string, 2)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		contexts <- r.Header.Get("Traceparent")
	}))
	defer endpoint.Close()
	server, url := start(t, t.TempDir())
	if server.contexts() != nil || server.attemptContext() != nil {
		t.Error("spans are made though nobody asked for them")
	}
	f := newFlow(t, url)
	f.send("POST", "/v2/publish/"+endpoint.URL, "", "traceparent: "+given, "Upstash-Callback: "+endpoint.URL)
	for range 2 {
		if got := <-contexts; got != given {
			t.Errorf("delivered with %q, want %q", got, given)
		}
	}
}
