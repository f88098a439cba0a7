package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"posthaste"
)

// errIncomplete marks a response that started but did not complete.
var errIncomplete = errors.New("incomplete response")

// request builds the request of an attempt, or returns an Error.
func (d *Dispatcher) request(ctx context.Context, m *posthaste.Message, dest destination, retried int, signature string) (*http.Request, error) {
	header, err := d.header(m, dest.url.User, retried, signature)
	if err != nil {
		return nil, err
	}
	// A bytes.Reader lets package http resend the request. The URL is set below to bypass its
	// parser.
	req, err := http.NewRequestWithContext(ctx, m.Verb(), "", bytes.NewReader(m.Body))
	if err != nil {
		return nil, posthaste.Invalidf("method %q is not an HTTP method", m.Verb())
	}
	req.URL, req.Host, req.Header = dest.url, dest.url.Host, header
	return req, nil
}

// exchange sends the request and reads the response. The error wraps errIncomplete if the
// response had started. If complete is set, a good response is not truncated for lack of memory.
func (d *Dispatcher) exchange(req *http.Request, memory *reservation, complete bool) (*posthaste.Response, error) {
	resp, err := d.roundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()

	memory.whole = complete && isGood(resp.StatusCode)
	body, truncated, err := readBody(resp, d.options.MaxResponseBody, memory)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIncomplete, err)
	}
	return &posthaste.Response{
		Status:    resp.StatusCode,
		Header:    resp.Header,
		Body:      body,
		Truncated: truncated,
	}, nil
}

// roundTrip sends the request, through a proxy if there is one for it. An http.Client would
// follow redirects.
func (d *Dispatcher) roundTrip(req *http.Request) (*http.Response, error) {
	if d.options.Proxy == nil {
		return d.direct.roundTrip(req)
	}
	proxy, err := d.options.Proxy(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoProxy, err)
	}
	if proxy == nil {
		return d.direct.roundTrip(req)
	}
	if strings.HasPrefix(req.URL.Opaque, "/") && !strings.HasPrefix(req.URL.Opaque, "//") {
		makeAbsolute(req.URL)
	}
	return d.proxied.roundTrip(req)
}
