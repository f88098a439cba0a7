package api

import (
	"net/http"
	"net/url"
	"strings"

	"posthaste"
)

// target is what the request line asks for, byte for byte: a destination in the
// path has to reach the store as it was sent, doubled slashes, dot segments,
// escapes and all.
type target struct {
	path     string // escaped, with one leading slash
	query    string // raw
	hasQuery bool   // there was a "?", maybe with nothing behind it
}

func targetOf(r *http.Request) target {
	raw := r.RequestURI
	if !strings.HasPrefix(raw, "/") {
		raw = r.URL.RequestURI() // absolute, as a forward proxy is asked
	}
	var t target
	t.path, t.query, t.hasQuery = strings.Cut(raw, "?")
	t.path = "/" + strings.TrimLeft(t.path, "/") // a base URL may end in a slash
	return t
}

// parameter is a pair of a query, decoded.
type parameter struct{ name, value string }

// tokenParameter authenticates where headers cannot be set.
const tokenParameter = "qstash_token"

// splitQuery takes the parameters out of a raw query that are meant for us:
// the token and control values (contract, messages 1.6). What is left belongs
// to the destination and keeps its order and encoding. A reserved value with a
// bad escape is an Error with CodeInvalid.
func splitQuery(raw string) (rest string, reserved []parameter, err error) {
	kept := make([]string, 0, strings.Count(raw, "&")+1)
	for pair := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil || !isReserved(name) {
			kept = append(kept, pair)
			continue
		}
		unescape := url.QueryUnescape
		if name == tokenParameter {
			unescape = url.PathUnescape // a + is one of a token's base64, and no space
		}
		if value, err = unescape(value); err != nil {
			return "", nil, posthaste.Invalidf("the value of %s is not percent-encoded correctly", name)
		}
		reserved = append(reserved, parameter{name, value})
	}
	return strings.Join(kept, "&"), reserved, nil
}

// isReserved reports whether a query parameter is meant for us. The upstash-
// names are ours altogether; among the service- names, which destinations use
// for themselves, only those are that name a control.
func isReserved(name string) bool {
	if name == tokenParameter {
		return true
	}
	if suffix, ok := strings.CutPrefix(http.CanonicalHeaderKey(name), servicePrefix); ok {
		return isControl(suffix)
	}
	return hasPrefixFold(name, upstashPrefix)
}
