package dispatch

import (
	"net/url"
	"strings"

	"posthaste"
	"posthaste/internal/weburl"
)

// destination is a message's URL, ready to be requested.
type destination struct {
	url    *url.URL // whose RequestURI is the target, byte for byte
	signed string   // what the signature names: the URL as it is sent, without its fragment
}

// CheckURL returns an Error with CodeInvalid for a destination that no attempt
// could ever be made to: no absolute http or https URL, one that HTTP cannot
// carry, or one whose host is an address the policy refuses.
func (d *Dispatcher) CheckURL(raw string) error {
	_, err := d.destination(raw)
	return err
}

func (d *Dispatcher) destination(raw string) (destination, error) {
	signed, _, _ := strings.Cut(raw, "#")
	signed, err := weburl.ASCII("destination", signed) // it may have been stored by an earlier version
	if err != nil {
		return destination{}, err
	}
	shown := withoutUser(signed) // an error is logged, and a user has a password
	u, err := url.Parse(signed)
	if err != nil {
		return destination{}, posthaste.Invalidf("destination %.200q is not a URL", shown)
	}
	if err := posthaste.CheckURL("destination", shown); err != nil {
		return destination{}, err
	}
	if strings.IndexByte(signed, ' ') >= 0 {
		return destination{}, posthaste.Invalidf("destination %.200q contains a space: write it as %%20", shown)
	}
	if err := d.options.Policy.CheckHost(u.Hostname()); err != nil {
		return destination{}, err
	}
	aim(u, targetOf(signed))
	return destination{url: u, signed: signed}, nil
}

// withoutUser returns a URL, or what should be one, without its user and password.
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

// targetOf returns what follows the authority of an absolute URL without
// fragment: path and query as written, with the "/" that HTTP asks for when
// there is no path.
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

// aim makes the target go out byte for byte. Parsing keeps every query and most
// paths as they are; a path with bytes that should have been percent-encoded
// would be re-encoded unless it is given as opaque.
func aim(u *url.URL, target string) {
	path, _, _ := strings.Cut(target, "?")
	if u.Path == "" || u.EscapedPath() == path {
		return
	}
	u.Opaque = path
	if strings.HasPrefix(path, "//") {
		makeAbsolute(u) // package url would take the path for an authority
	}
}

// makeAbsolute turns an opaque path into the absolute form of a target, which
// every server has to understand and a proxy has to be given.
func makeAbsolute(u *url.URL) {
	u.Opaque = "//" + u.Host + u.Opaque
}
