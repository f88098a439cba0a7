package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"posthaste/internal/openapi/openapitest"
)

// described returns the URL of a proxy of the server, which fails the test for each
// exchange that is not as the description of the API says: what SDKs send and receive.
func described(t *testing.T, server string) string {
	t.Helper()
	checker, err := openapitest.New()
	if err != nil {
		t.Fatal(err)
	}
	p := &describedProxy{t: t, checker: checker, host: strings.TrimPrefix(server, "http://")}
	proxy := httptest.NewServer(p)
	t.Cleanup(func() {
		proxy.CloseClientConnections() // an SDK may have left some open
		proxy.Close()
		p.transport.CloseIdleConnections()
	})
	return proxy.URL
}

type describedProxy struct {
	t         *testing.T
	checker   *openapitest.Checker
	host      string
	transport http.Transport
}

// ServeHTTP passes a request on as it came, and the answer as it comes.
func (p *describedProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	request := &http.Request{
		Method:        r.Method,
		URL:           &url.URL{Scheme: "http", Host: p.host, Opaque: r.RequestURI},
		Host:          r.Host,
		Header:        r.Header.Clone(),
		Body:          io.NopCloser(bytes.NewReader(sent)),
		ContentLength: int64(len(sent)),
	}
	response, err := p.transport.RoundTrip(request.WithContext(r.Context()))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer response.Body.Close()
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.StatusCode)
	var received bytes.Buffer
	_, _ = io.Copy(flushed{w}, io.TeeReader(response.Body, &received)) // the client may be gone
	if response.Header.Get("Content-Encoding") != "" {
		return
	}
	if err := p.checker.Check(openapitest.Exchange{
		Method: r.Method, Target: r.RequestURI, RequestHeader: r.Header, RequestBody: sent,
		Status: response.StatusCode, Header: response.Header, Body: received.Bytes(),
	}); err != nil {
		p.t.Errorf("not as internal/openapi/openapi.yaml describes it: %v", err)
	}
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
