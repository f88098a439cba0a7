package posthaste

import (
	"net/http"
	"strings"
	"unicode/utf8"
)

// A header value is kept as the bytes that it has on the wire. Where it enters or leaves as
// JSON, it is text, by the rule of fetch: one byte for each character up to U+00FF (contract,
// decision 29). So a Headers object can hold whatever leaves, and what it holds comes back as
// the same bytes.

// EncodeHeaderText returns the header value that carries a text. A text with a character
// above U+00FF, which fetch refuses, goes in UTF-8 as a whole.
func EncodeHeaderText(text string) string {
	if isASCII(text) {
		return text
	}
	value := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xff {
			return text
		}
		value = append(value, byte(r))
	}
	return string(value)
}

// DecodeHeaderText returns the text that a header value means to us: a label, a key, a URL.
// Some clients send UTF-8 and others one byte for each character; what is valid UTF-8 is
// taken for it.
func DecodeHeaderText(value string) string {
	if utf8.ValidString(value) {
		return value
	}
	return fetched(value)
}

// HeaderInJSON returns a header with the values that a Headers object holds: it is written
// as JSON. It is the header itself if all values are ASCII.
func HeaderInJSON(header http.Header) http.Header { return withValues(header, fetched) }

// HeaderFromJSON undoes HeaderInJSON.
func HeaderFromJSON(header http.Header) http.Header { return withValues(header, EncodeHeaderText) }

// fetched returns a header value as fetch reads it: a character for each byte.
func fetched(value string) string {
	text := make([]rune, len(value))
	for i := range len(value) {
		text[i] = rune(value[i])
	}
	return string(text)
}

// withValues returns a header with its values changed. Those that are ASCII stay.
func withValues(header http.Header, change func(string) string) http.Header {
	if isASCIIHeader(header) {
		return header
	}
	changed := make(http.Header, len(header))
	for name, values := range header {
		list := make([]string, len(values))
		for i, value := range values {
			if list[i] = value; !isASCII(value) {
				list[i] = change(value)
			}
		}
		changed[name] = list
	}
	return changed
}

func isASCIIHeader(header http.Header) bool {
	for _, values := range header {
		for _, value := range values {
			if !isASCII(value) {
				return false
			}
		}
	}
	return true
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// IsHeaderName reports whether a text is a valid name of a header (RFC 9110, 5.6.2).
func IsHeaderName(text string) bool {
	for i := range len(text) {
		c := text[i]
		letter, digit := 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9'
		if !letter && !digit && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return text != ""
}

// IsHeaderValue reports whether a text is a valid value of a header: without control characters.
func IsHeaderValue(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// IsConnectionHeader reports whether a header, by its canonical name, belongs to one connection or
// to the framing of one request, so that it is never forwarded.
func IsConnectionHeader(name string) bool {
	switch name {
	case "Connection", "Content-Length", "Expect", "Host", "Http2-Settings", "Keep-Alive", "Proxy-Authenticate",
		"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}
