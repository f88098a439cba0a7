package api

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"posthaste"
	"posthaste/internal/api/wire"
)

// request is an authenticated request. Its query is split into ours and the rest; readBody and
// decodeJSON read its body.
type request struct {
	*http.Request
	writer   http.ResponseWriter
	target   target
	reserved []wire.Parameter // of the query
	rest     string           // of the query, raw
	controls bool             // the query may have controls
	forRun   bool             // may come from a running workflow, see failRun
	caller

	requests, bodyBytes, pageBytes Gate
	largestPage                    int64 // bytes
	readers                        Turns
	visit                          visit
}

func (a *api) newRequest(w http.ResponseWriter, r *http.Request) (*request, error) {
	t := targetOf(r)
	rest, reserved, err := wire.SplitQuery(t.query)
	if err != nil {
		return nil, err
	}
	return &request{
		Request: r, writer: w, target: t, reserved: reserved, rest: rest,
		requests: a.options.Requests, bodyBytes: a.options.BodyBytes, readers: a.options.Readers,
		pageBytes: a.options.PageBytes, largestPage: largestPage(a.options.MaxStep),
	}, nil
}

// params returns the query without reserved parameters. Controls without effect are unknown
// parameters (contract, decision 16).
func (r *request) params() (url.Values, error) {
	values, err := url.ParseQuery(r.rest)
	if err != nil {
		return nil, posthaste.Invalidf("the query string is malformed: %v", err)
	}
	if !r.controls {
		for _, p := range r.reserved {
			if p.Name != wire.TokenParameter {
				values.Add(p.Name, p.Value)
			}
		}
	}
	return values, nil
}

// parameter returns the first value of a reserved parameter, "" if missing.
func (r *request) parameter(name string) string {
	for _, p := range r.reserved {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// pathText returns a part of the path, decoded. The server rejects bad escapes before.
func (r *request) pathText(name string) string {
	raw := chi.URLParamFromCtx(r.Context(), name)
	text, err := url.PathUnescape(raw)
	if err != nil {
		return raw
	}
	return text
}

// pathName reads a part of the path that is a name; what is for errors.
func pathName(part, what string) func(r *request) (string, error) {
	return func(r *request) (string, error) {
		text := r.pathText(part)
		return text, posthaste.CheckName(what, text)
	}
}

// readBody returns the body, nil if empty, when the request may be worked on. A body above limit
// is an error; if announced, no memory is allocated for it.
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

// readAll reads a body. An announced length is allocated exactly, because the message keeps it.
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

// callerIP returns the caller's address without port, "" if unknown. Behind trusted proxies it is
// the last untrusted address in X-Forwarded-For; anyone could write earlier ones.
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
	return slices.ContainsFunc(a.options.TrustedProxies, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}

// parseAddr parses an address with or without port, brackets and zone.
func parseAddr(text string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return addr.Unmap().WithZone(""), err == nil
}

// target is the request target, byte for byte: a destination in it is stored as sent.
type target struct {
	path     string // escaped, with one leading slash
	query    string // raw
	hasQuery bool   // there was a "?"
}

func targetOf(r *http.Request) target {
	raw := r.RequestURI
	if !strings.HasPrefix(raw, "/") {
		raw = r.URL.RequestURI() // absolute, as sent to a proxy
	}
	var t target
	t.path, t.query, t.hasQuery = strings.Cut(raw, "?")
	t.path = "/" + strings.TrimLeft(t.path, "/") // base URLs may end with a slash
	return t
}
