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

// errIncomplete marks an answer that began and did not end.
var errIncomplete = errors.New("incomplete answer")

// request builds the request of an attempt. Its error is an Error for what
// cannot be sent.
func (d *Dispatcher) request(ctx context.Context, m *posthaste.Message, dest destination, retried int, signature string) (*http.Request, error) {
	header, err := d.header(m, dest.url.User, retried, signature)
	if err != nil {
		return nil, err
	}
	// The reader lets a request be sent again when a kept-alive connection
	// proves dead. The URL is set below, past its parser.
	req, err := http.NewRequestWithContext(ctx, m.Verb(), "", bytes.NewReader(m.Body))
	if err != nil {
		return nil, posthaste.Invalidf("method %q is not an HTTP method", m.Verb())
	}
	req.URL, req.Host, req.Header = dest.url, dest.url.Host, header
	return req, nil
}

// exchange sends the request and reads the answer, whose body takes memory of the room.
// The error tells why there is no complete one, and wraps errIncomplete when it had
// begun. A good answer that is told of is not cut for want of memory.
func (d *Dispatcher) exchange(req *http.Request, memory *loan, told bool) (*posthaste.Response, error) {
	resp, err := d.roundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()

	memory.whole = told && isGood(resp.StatusCode)
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

// roundTrip sends the request through a proxy if one is meant for it. It uses
// the transport itself: a client on top would follow redirects.
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
