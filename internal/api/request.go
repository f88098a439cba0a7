package api

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"posthaste"
)

// request is a request as handlers see it: authenticated, its body bounded, its
// query divided into what is for us and the rest.
type request struct {
	*http.Request
	target   target
	reserved []parameter // of the query
	rest     string      // of the query, raw
	maxBody  int64
	caller
}

// newRequest divides the query and bounds the body; it does not authenticate.
// Reading more than the bound fails, and makes the server close the connection
// rather than read on.
func (a *api) newRequest(w http.ResponseWriter, r *http.Request) (*request, error) {
	t := targetOf(r)
	rest, reserved, err := splitQuery(t.query)
	if err != nil {
		return nil, err
	}
	r.Body = http.MaxBytesReader(w, r.Body, a.options.MaxBody)
	return &request{Request: r, target: t, reserved: reserved, rest: rest, maxBody: a.options.MaxBody}, nil
}

// params returns the query without what is reserved, decoded.
func (r *request) params() (url.Values, error) {
	values, err := url.ParseQuery(r.rest)
	if err != nil {
		return nil, posthaste.Invalidf("the query string is malformed: %v", err)
	}
	return values, nil
}

// parameter returns the first value of a reserved parameter, "" if it was not
// given.
func (r *request) parameter(name string) string {
	for _, p := range r.reserved {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// readBody returns the whole body. One that is announced to be too large is not
// read at all.
func (r *request) readBody() ([]byte, error) {
	if r.ContentLength > r.maxBody {
		return nil, r.tooLarge()
	}
	var body bytes.Buffer
	if r.ContentLength > 0 {
		body.Grow(int(r.ContentLength) + bytes.MinRead) // all at once, with room to find the end
	}
	_, err := io.Copy(&body, r.Body)
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, r.tooLarge()
	}
	if err != nil {
		return nil, &posthaste.Error{Code: posthaste.CodeInvalid, Message: "the body ended before it was complete", Err: err}
	}
	if body.Len() == 0 {
		return nil, nil
	}
	return body.Bytes(), nil
}

func (r *request) tooLarge() error {
	return posthaste.Errorf(posthaste.CodeTooLarge, "the body is larger than the limit of %d bytes", r.maxBody)
}

// callerIP returns the address the request came from, without port; "" if the
// connection has none. Behind trusted proxies it is the last address in
// X-Forwarded-For that is not one of theirs: what stands before it could have
// been written by anyone.
func (a *api) callerIP(r *http.Request) string {
	addr, ok := parseAddr(r.RemoteAddr)
	if !ok {
		return ""
	}
	forwarded := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for i := len(forwarded) - 1; i >= 0 && a.isTrusted(addr); i-- {
		before, ok := parseAddr(strings.TrimSpace(forwarded[i]))
		if !ok {
			break
		}
		addr = before
	}
	return addr.String()
}

func (a *api) isTrusted(addr netip.Addr) bool {
	for _, prefix := range a.options.TrustedProxies {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// parseAddr reads an address with or without port, brackets and zone.
func parseAddr(text string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return addr.Unmap().WithZone(""), err == nil
}
