// Package weburl writes URLs in ASCII, as the URL standard of browsers does: what is outside
// ASCII in a path, a query or a user is percent-encoded as UTF-8, and the host is mapped by
// UTS 46. What is ASCII already stays as it is, byte for byte (contract, decision 30).
package weburl

import (
	"errors"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"posthaste"
)

// ASCII returns a URL in ASCII, or an Error with CodeInvalid for a host that is no name; what
// begins its sentence. A text that is no absolute URL is escaped as it is: that it is none is
// for others to find.
func ASCII(what, text string) (string, error) {
	scheme, rest, absolute := strings.Cut(text, "://")
	if !absolute {
		return Escape(text), nil
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	user, host := "", rest[:end]
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		user, host = host[:at+1], host[at+1:]
	}
	ascii, ok := asciiHost(host)
	if !ok {
		return "", posthaste.Invalidf("%s has the host %.200q, which is not a valid host name", what, host)
	}
	return Escape(scheme) + "://" + Escape(user) + ascii + Escape(rest[end:]), nil
}

// Host returns a host in ASCII, with its port if it has one; a text that is no host as it is.
func Host(text string) string {
	if ascii, ok := asciiHost(text); ok {
		return ascii
	}
	return text
}

// Escape percent-encodes what is outside ASCII.
func Escape(text string) string {
	outside := 0
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			outside++
		}
	}
	if outside == 0 {
		return text
	}
	const digits = "0123456789ABCDEF"
	escaped := make([]byte, 0, len(text)+2*outside)
	for i := range len(text) {
		if c := text[i]; c < utf8.RuneSelf {
			escaped = append(escaped, c)
		} else {
			escaped = append(escaped, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(escaped)
}

// names maps the names of hosts as browsers do when they are given a URL. Beyond that, a
// name has to be one that can be looked up, by the length of its labels.
var names = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false),
	idna.CheckHyphens(false), idna.CheckJoiners(true), idna.BidiRule(), idna.VerifyDNSLength(true))

// notInHosts are the characters that end a host or that no host may have (URL standard,
// forbidden domain code points); controls are looked for apart.
const notInHosts = " #/:<>?@[\\]^|%\x7f"

// asciiHost returns a host in ASCII; a port may follow it. ok is false if it is none.
func asciiHost(host string) (ascii string, ok bool) {
	if Escape(host) == host && !strings.Contains(host, "%") || strings.HasPrefix(host, "[") {
		return host, Escape(host) == host // an address in brackets may have a zone, behind a %
	}
	name, port := host, ""
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 {
		name, port = host[:colon], host[colon:]
	}
	name, err := url.PathUnescape(name)
	if err == nil && !utf8.ValidString(name) {
		err = errors.New("no UTF-8")
	}
	if err == nil {
		name, err = names.ToASCII(name)
	}
	isForbidden := func(r rune) bool { return r < ' ' || strings.ContainsRune(notInHosts, r) || r >= utf8.RuneSelf }
	return name + port, err == nil && name != "" && !strings.ContainsFunc(name, isForbidden) && Escape(port) == port
}
