package wire

import (
	"net/http"
	"net/url"
	"strings"

	"posthaste"
)

// Parameter is a parameter of a query.
type Parameter struct{ Name, Value string }

// TokenParameter replaces the Authorization header.
const TokenParameter = "qstash_token"

// SplitQuery removes our parameters, the token and controls, from a raw query (contract, messages
// 1.6). The rest belongs to the destination and stays as sent. A bad escape in a reserved value
// is an Error with CodeInvalid.
func SplitQuery(raw string) (rest string, reserved []Parameter, err error) {
	kept := make([]string, 0, strings.Count(raw, "&")+1)
	for pair := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil || !isReserved(name) {
			kept = append(kept, pair)
			continue
		}
		unescape := url.QueryUnescape
		if name == TokenParameter {
			unescape = url.PathUnescape // + is base64, not a space
		}
		if value, err = unescape(value); err != nil {
			return "", nil, posthaste.Invalidf("the value of %s is not percent-encoded correctly", name)
		}
		reserved = append(reserved, Parameter{name, value})
	}
	return strings.Join(kept, "&"), reserved, nil
}

// isReserved reports whether a parameter is ours: all upstash- names, and service- names of
// controls, because destinations use others.
func isReserved(name string) bool {
	if name == TokenParameter {
		return true
	}
	if suffix, ok := strings.CutPrefix(http.CanonicalHeaderKey(name), ServicePrefix); ok {
		return isControl(suffix)
	}
	return HasPrefixFold(name, UpstashPrefix)
}
