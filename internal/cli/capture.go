package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"net/http"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"

	"posthaste"
)

// capture is a delivery as its receiver has it.
type capture struct {
	signature string
	url       string // "" if it is not known; //HOST/PATH if its scheme is not
	body      []byte
}

// requestLine matches the first line of a request, which may be missing.
var requestLine = regexp.MustCompile(`^[A-Z]+ (\S+)(?: HTTP/\S+)?\r?\n`)

// readCapture reads a request as it was captured: its first line, if it is there, its
// headers, an empty line, its body. What an editor added behind a body whose length the
// headers tell does not count.
func readCapture(text []byte) (capture, error) {
	target := ""
	if first := requestLine.FindSubmatch(text); first != nil {
		target, text = string(first[1]), text[len(first[0]):]
	}
	head, body := text, []byte(nil)
	if end := regexp.MustCompile(`\r?\n\r?\n`).FindIndex(text); end != nil {
		head, body = text[:end[0]], text[end[1]:]
	}
	fields, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(bytes.TrimSpace(head), "\n\n"...)))).ReadMIMEHeader()
	if err != nil {
		return capture{}, posthaste.Invalidf("the headers of the request cannot be read, NAME: VALUE per line is expected: %v", err)
	}
	header := http.Header(fields)
	r := capture{
		signature: cmp.Or(header.Get("Upstash-Signature"), header.Get("Service-Signature")),
		url:       target,
		body:      body,
	}
	if r.signature == "" {
		return capture{}, posthaste.Invalidf("the request has no header Upstash-Signature")
	}
	if length, err := strconv.Atoi(header.Get("Content-Length")); err == nil && length >= 0 && length < len(body) {
		r.body = body[:length]
	}
	if strings.HasPrefix(target, "/") {
		r.url = originOf(header) + target
		if r.url == target {
			r.url = "" // it has no host
		}
	}
	return r, nil
}

// originOf returns the scheme and the host that a request was sent to, "" if it does not
// name its host. The scheme is there if a proxy sends it.
func originOf(header http.Header) string {
	host := cmp.Or(header.Get("X-Forwarded-Host"), header.Get("Host"))
	if host == "" {
		return ""
	}
	if scheme := header.Get("X-Forwarded-Proto"); scheme != "" {
		return scheme + "://" + host
	}
	return "//" + host
}
