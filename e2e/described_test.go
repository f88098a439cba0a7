package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"posthaste/internal/openapi/openapitest"
)

// description is the description of the API, with which whatever the tests say to a server
// is compared, and what it answers: by their own client, by SDKs, and by the console.
var description = sync.OnceValues(openapitest.New)

// undescribed are the exchanges of the tests' client that are not as they are described.
// The run fails for each of them: a test may expect errors, and would not see one.
var undescribed faults

type faults struct {
	mu  sync.Mutex
	all []error
}

func (f *faults) add(fault error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, fault)
}

// describedTransport is a transport that compares what it carries with the description.
type describedTransport struct {
	*http.Transport
	report func(fault error)
	seen   *exchanges
}

// exchanges counts exchanges by what they are about.
type exchanges struct {
	mu   sync.Mutex
	seen map[string]int
}

func newExchanges() *exchanges { return &exchanges{seen: make(map[string]int)} }

// ofClients are those of the tests' own client.
var ofClients = newExchanges()

// RoundTrip compares an exchange when its answer has been read to the end. Bodies of
// requests can be read again.
func (t *describedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(r)
	if err != nil || !t.compares(r, response) {
		return response, err
	}
	x := openapitest.Exchange{
		Method: r.Method, Target: r.URL.RequestURI(), RequestHeader: r.Header.Clone(),
		Status: response.StatusCode, Header: response.Header.Clone(),
	}
	if r.GetBody != nil {
		sent, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		if x.RequestBody, err = io.ReadAll(sent); err != nil {
			return nil, err
		}
	}
	response.Body = &comparedBody{ReadCloser: response.Body, done: func(received []byte) {
		x.Body = received
		t.compare(x)
	}}
	return response, nil
}

// resource is the beginning of a target that tells what a request is about.
var resource = regexp.MustCompile(`^/v2/(workflows/)?[^/?]*`)

// first reports whether something is among the first, or one of a hundred after them.
func (e *exchanges) first(most int, kind string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen[kind]++
	n := e.seen[kind]
	return n <= most || n%100 == 0
}

// compares reports whether an exchange is to be compared: the first hundred about the same,
// and then one of a hundred; fewer of the long ones, which take long. The pages of the console are no exchanges of the API, and a
// stream is compared by nothing but its status, which a test would see.
func (t *describedTransport) compares(r *http.Request, response *http.Response) bool {
	if r.Method == http.MethodOptions || strings.HasPrefix(r.URL.RequestURI(), "/console/") ||
		response.Header.Get("Content-Type") == "text/event-stream" {
		return false
	}
	return t.seen.first(100, fmt.Sprint(r.Method, resource.FindString(r.URL.RequestURI()), response.StatusCode))
}

func (t *describedTransport) compare(x openapitest.Exchange) {
	const long, most = 64 << 10, 10
	if len(x.Body) > long && !t.seen.first(most, fmt.Sprint("long ", x.Method, resource.FindString(x.Target))) {
		return
	}
	checker, err := description()
	if err == nil {
		err = checker.Check(x)
	}
	if err != nil {
		t.report(fmt.Errorf("not as internal/openapi/openapi.yaml describes it: %w", err))
	}
}

// comparedBody is the body of an answer. Of one that is cut off, nothing is compared.
type comparedBody struct {
	io.ReadCloser
	received bytes.Buffer
	done     func(received []byte) // nil once it was called
}

func (b *comparedBody) Read(piece []byte) (int, error) {
	n, err := b.ReadCloser.Read(piece)
	b.received.Write(piece[:n])
	if err == io.EOF && b.done != nil {
		b.done(b.received.Bytes())
		b.done = nil
	}
	return n, err
}

// described returns the URL of a proxy of the server, which fails the test for each
// exchange that is not as the description of the API says: what SDKs and the console send
// and receive.
func described(t *testing.T, server string) string {
	t.Helper()
	p := &describedProxy{
		host:      strings.TrimPrefix(server, "http://"),
		transport: &describedTransport{&http.Transport{}, func(fault error) { t.Error(fault) }, newExchanges()},
	}
	proxy := httptest.NewServer(p)
	t.Cleanup(func() {
		proxy.CloseClientConnections() // an SDK may have left some open
		proxy.Close()
		p.transport.CloseIdleConnections()
	})
	return proxy.URL
}

type describedProxy struct {
	host      string
	transport *describedTransport
}

// ServeHTTP passes a request on as it came, and the answer as it comes.
func (p *describedProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	body := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(sent)), nil }
	request := &http.Request{
		Method:        r.Method,
		URL:           &url.URL{Scheme: "http", Host: p.host, Opaque: r.RequestURI},
		Host:          r.Host,
		Header:        r.Header.Clone(),
		GetBody:       body,
		ContentLength: int64(len(sent)),
	}
	request.Body, _ = body()
	response, err := p.transport.RoundTrip(request.WithContext(r.Context()))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer response.Body.Close()
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(flushed{w}, response.Body) // the client may be gone
}

// flushed sends each piece at once: a stream has no end to wait for.
type flushed struct{ http.ResponseWriter }

func (f flushed) Write(piece []byte) (int, error) {
	n, err := f.ResponseWriter.Write(piece)
	if flusher, ok := f.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
	return n, err
}
