package api

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"posthaste"
)

// request is a request as handlers see it: authenticated, its query divided into
// what is for us and the rest. Its body is read by readBody and decodeJSON alone,
// which bound it.
type request struct {
	*http.Request
	writer   http.ResponseWriter
	target   target
	reserved []parameter // of the query
	rest     string      // of the query, raw
	controls bool        // the query may have controls
	forRun   bool        // the endpoint of a running workflow may have sent it: see failRun
	caller

	requests, bodyBytes, pageBytes Gate
	largestPage                    int64 // bytes
	readers                        Turns
	visit                          visit
}

// newRequest divides the query; it does not authenticate.
func (a *api) newRequest(w http.ResponseWriter, r *http.Request) (*request, error) {
	t := targetOf(r)
	rest, reserved, err := splitQuery(t.query)
	if err != nil {
		return nil, err
	}
	return &request{
		Request: r, writer: w, target: t, reserved: reserved, rest: rest,
		requests: a.options.Requests, bodyBytes: a.options.BodyBytes, readers: a.options.Readers,
		pageBytes: a.options.PageBytes, largestPage: largestPage(a.options.MaxStep),
	}, nil
}

// params returns the query without what is reserved, decoded. Controls, where they have
// no effect, are parameters that are not known (contract, decision 16).
func (r *request) params() (url.Values, error) {
	values, err := url.ParseQuery(r.rest)
	if err != nil {
		return nil, posthaste.Invalidf("the query string is malformed: %v", err)
	}
	if !r.controls {
		for _, p := range r.reserved {
			if p.name != tokenParameter {
				values.Add(p.name, p.value)
			}
		}
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

// pathText returns a part of the path, decoded. A bad escape does not come this
// far: the server refuses the whole request.
func (r *request) pathText(name string) string {
	raw := chi.URLParamFromCtx(r.Context(), name)
	text, err := url.PathUnescape(raw)
	if err != nil {
		return raw
	}
	return text
}

// pathName returns a part of the path that has to be a name; what is the name of
// begins the sentence of the error.
func (r *request) pathName(name, what string) (string, error) {
	text := r.pathText(name)
	return text, posthaste.CheckName(what, text)
}

// readBody returns the whole body, nil if it is empty. Of one that is larger than the
// limit nothing is kept: if that was announced no memory is taken for it. When it returns
// the request may be worked on.
func (r *request) readBody(limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if r.ContentLength != 0 {
		if err := r.carry(r.ContentLength, limit); err != nil {
			return nil, err
		}
	}
	body, err := readAll(http.MaxBytesReader(r.writer, r.Body, limit), r.ContentLength)
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, tooLarge(limit)
	}
	if err != nil {
		return nil, &posthaste.Error{Code: posthaste.CodeInvalid, Message: "the body ended before it was complete", Err: err}
	}
	if len(body) == 0 {
		body = nil
	}
	return body, r.work()
}

// readAll reads a body to its end. One whose length was announced gets as much
// memory as it needs, and no more: the message keeps it.
func readAll(body io.Reader, announced int64) ([]byte, error) {
	if announced < 0 {
		return io.ReadAll(body)
	}
	all := make([]byte, announced)
	_, err := io.ReadFull(body, all)
	return all, err
}

func tooLarge(limit int64) error {
	return posthaste.Errorf(posthaste.CodeTooLarge, "the body is larger than the limit of %d bytes", limit)
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
