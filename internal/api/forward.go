package api

import (
	"net/http"
	"strings"

	"posthaste"
)

// forwardedHeader returns the headers that were given with the Forward- prefix,
// under their own names; nil if there are none. The Content-Type is always that
// of the publication itself.
func forwardedHeader(c controls) (http.Header, error) {
	var header http.Header
	for suffix, given := range c.values {
		name, ok := strings.CutPrefix(suffix, forwardPrefix)
		if !ok || name == "Content-Type" || posthaste.IsConnectionHeader(name) {
			continue
		}
		if name == "" {
			return nil, posthaste.Invalidf("%s lacks the name of the header to forward, write %sX-Name", given.name, given.name)
		}
		if header == nil {
			header = make(http.Header)
		}
		header[name] = given.values
	}
	return header, nil
}

// incoming is the header that came with a publication, apart from controls.
type incoming struct {
	header http.Header
	// ownsAuthorization is whether Authorization held our token, which is no
	// destination's business.
	ownsAuthorization bool
	// outerTrace is that of the request, for an item of a batch that says nothing.
	outerTrace posthaste.TraceContext
}

// contentType returns the type of the publication's body, "" if none was given.
func (in incoming) contentType() string { return in.header.Get("Content-Type") }

// trace returns where in a trace the publisher says that it is: in a header for us, or
// in the one that it has forwarded, which has the name in canonical form.
func (in incoming) trace(forwarded http.Header) posthaste.TraceContext {
	const name = "Traceparent"
	for _, header := range []http.Header{in.header, forwarded} {
		if trace, ok := posthaste.ParseTraceContext(header.Get(name)); ok {
			return trace
		}
	}
	return in.outerTrace
}

// addAll adds the incoming headers that may be forwarded, which a publisher
// asks for who cannot prefix them (contract, U-8). It passes over names that
// are there already.
func (in incoming) addAll(header http.Header) {
	for name, values := range in.header {
		if _, given := header[name]; !given && in.mayForward(name) {
			header[name] = values
		}
	}
}

func (in incoming) mayForward(name string) bool {
	switch {
	case name == "Accept-Encoding" || name == "User-Agent":
		return false
	case name == "Authorization":
		return !in.ownsAuthorization
	case strings.HasPrefix(name, upstashPrefix) || strings.HasPrefix(name, servicePrefix):
		return false
	default:
		return !posthaste.IsConnectionHeader(name) && !in.isPerConnection(name)
	}
}

// withoutConnection returns a copy of the headers without those that belong to one
// connection or to the framing of one request.
func (in incoming) withoutConnection() http.Header {
	header := make(http.Header, len(in.header))
	for name, values := range in.header {
		if !posthaste.IsConnectionHeader(name) && !in.isPerConnection(name) {
			header[name] = values
		}
	}
	return header
}

// isPerConnection reports whether the Connection header names the header.
func (in incoming) isPerConnection(name string) bool {
	for _, value := range in.header["Connection"] {
		for listed := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(listed), name) {
				return true
			}
		}
	}
	return false
}
