package wire

import (
	"net/url"
	"strings"

	"posthaste"
)

// Destination reads the target of a publication (contract, messages 2.2): an absolute URL in ASCII, or
// the name of a URL group. It returns an Error with CodeInvalid for anything else.
func (d Decoder) Destination(text string) (destination string, isGroup bool, err error) {
	if text = repairURL(text); IsURL(text) {
		destination, err = d.URL("destination", text)
		return destination, false, err
	}
	name, _, _ := strings.Cut(text, "?") // groups have no query
	if unescaped, err := url.PathUnescape(name); err == nil {
		name = unescaped
	}
	return name, true, checkGroupName(name)
}

func checkGroupName(name string) error {
	switch {
	case name == "":
		return posthaste.Invalidf("a non-empty destination must be provided: a URL or the name of a URL group")
	case isHosted(name):
		return posthaste.Invalidf("destination %q is a service that this server does not offer, "+
			"publish to the URL of a provider instead", name)
	case strings.ContainsAny(name, "/:"):
		return posthaste.Invalidf("invalid destination url: endpoint has invalid scheme, add http:// or https:// to %.200q", name)
	case posthaste.CheckName("destination", name) != nil:
		return posthaste.Invalidf("destination %.200q is neither a URL nor the name of a URL group, "+
			"which is made of letters, digits, - _ and .", name)
	}
	return nil
}

// isHosted reports whether a destination names a hosted service of the original.
func isHosted(name string) bool {
	for _, service := range []string{"api/llm", "api/email"} {
		if rest, ok := strings.CutPrefix(name, service); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// IsURL reports whether a destination is a URL rather than the name of a URL group.
func IsURL(text string) bool {
	return HasPrefixFold(text, "http://") || HasPrefixFold(text, "https://")
}

// repairURL undoes what clients and proxies do to a URL in a path: escaping it, or collapsing
// slashes (contract, U-75).
func repairURL(text string) string {
	path, query, hasQuery := strings.Cut(text, "?")
	separator := "?"
	if decoded, err := url.PathUnescape(path); err == nil && !isSchemed(path) && isSchemed(decoded) {
		path = decoded
		if strings.Contains(path, "?") {
			separator = "&"
		}
	}
	if isSchemed(path) && !IsURL(path) {
		path = strings.Replace(path, ":/", "://", 1)
	}
	if hasQuery {
		return path + separator + query
	}
	return path
}

// isSchemed reports whether a text starts like a URL with at least one slash.
func isSchemed(text string) bool {
	return HasPrefixFold(text, "http:/") || HasPrefixFold(text, "https:/")
}

// HasPrefixFold reports whether a text has a prefix in any letter case.
func HasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}
