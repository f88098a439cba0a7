package api

import (
	"net/url"
	"strings"

	"posthaste"
)

// destination is the target of a publication.
type destination struct {
	text  string // absolute URL in ASCII, or name of a URL group
	group bool
}

// destination parses a destination (contract, messages 2.2), or returns an Error with
// CodeInvalid.
func (d decoder) destination(text string) (destination, error) {
	if text = repairURL(text); isURL(text) {
		text, err := d.url("destination", text)
		return destination{text: text}, err
	}
	name, _, _ := strings.Cut(text, "?") // groups have no query
	if unescaped, err := url.PathUnescape(name); err == nil {
		name = unescaped
	}
	return destination{text: name, group: true}, checkGroupName(name)
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

func isURL(text string) bool {
	return hasPrefixFold(text, "http://") || hasPrefixFold(text, "https://")
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
	if isSchemed(path) && !isURL(path) {
		path = strings.Replace(path, ":/", "://", 1)
	}
	if hasQuery {
		return path + separator + query
	}
	return path
}

// isSchemed reports whether a text starts like a URL with at least one slash.
func isSchemed(text string) bool {
	return hasPrefixFold(text, "http:/") || hasPrefixFold(text, "https:/")
}

func hasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}
