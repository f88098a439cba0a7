package dispatch

import (
	"net/url"
	"strings"

	"posthaste"
	"posthaste/internal/weburl"
)

// destination is a message's URL, parsed.
type destination struct {
	url    *url.URL // its RequestURI is the request target, byte for byte
	signed string   // the URL without fragment, which is signed
}

// destination returns an Error with CodeInvalid for a URL that can never be requested: not an
// absolute http or https URL, not valid in HTTP, or with an address that the policy refuses.
func (d *Dispatcher) destination(raw string) (destination, error) {
	signed, _, _ := strings.Cut(raw, "#")
	signed, err := weburl.ASCII("destination", signed) // stored URLs may not be in ASCII
	if err != nil {
		return destination{}, err
	}
	shown := withoutUser(signed) // errors are logged, and the URL may have a password
	u, err := posthaste.ParseURL("destination", signed, shown)
	if err != nil {
		return destination{}, err
	}
	if strings.IndexByte(signed, ' ') >= 0 {
		return destination{}, posthaste.Invalidf("destination %.200q contains a space: write it as %%20", shown)
	}
	if err := d.options.Policy.CheckHost(u.Hostname()); err != nil {
		return destination{}, err
	}
	setTarget(u, targetOf(signed))
	return destination{url: u, signed: signed}, nil
}

// withoutUser removes user and password from a URL, valid or not.
func withoutUser(raw string) string {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		return raw
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	return scheme + "://" + rest[strings.LastIndexByte(rest[:end], '@')+1:]
}

// targetOf returns path and query of an absolute URL without fragment, as written; "/" for an
// empty path.
func targetOf(absolute string) string {
	_, rest, _ := strings.Cut(absolute, "://")
	start := strings.IndexAny(rest, "/?")
	switch {
	case start < 0:
		return "/"
	case rest[start] == '?':
		return "/" + rest[start:]
	default:
		return rest[start:]
	}
}

// setTarget makes u's request target target, byte for byte. Package url would re-encode some
// paths, unless they are given as Opaque.
func setTarget(u *url.URL, target string) {
	path, _, _ := strings.Cut(target, "?")
	if u.Path == "" || u.EscapedPath() == path {
		return
	}
	u.Opaque = path
	if strings.HasPrefix(path, "//") {
		makeAbsolute(u) // package url would parse it as an authority
	}
}

// makeAbsolute turns an opaque path into the absolute form of a request target, which proxies
// need.
func makeAbsolute(u *url.URL) {
	u.Opaque = "//" + u.Host + u.Opaque
}
