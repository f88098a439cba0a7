package runlog

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"

	"posthaste"
)

// display limits what is shown: the run's redaction (contract, workflows 8.4) and the requested
// bytes of a body.
type display struct {
	redact posthaste.Redaction
	limit  int
}

// body returns a payload or result.
func (d display) body(data []byte) string {
	if d.redact.Body && len(data) > 0 && d.limit > 0 {
		return posthaste.Redacted(data)
	}
	return d.response(data)
}

// response returns a response to a delivery, which is not redacted, as in the log of messages.
// Binary data is in base64. The result does not share memory with what is cut off.
func (d display) response(data []byte) string {
	if d.limit == 0 {
		return ""
	}
	text := string(data)
	if !utf8.Valid(data) {
		text = base64.StdEncoding.EncodeToString(data)
	}
	if len(text) <= d.limit {
		return text
	}
	end := d.limit
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end])
}

// result returns a run's result, nil for none.
func (d display) result(text *string) *string {
	if text == nil || d.limit == 0 {
		return nil
	}
	shown := d.body([]byte(*text))
	return &shown
}

func (d display) header(h http.Header) http.Header {
	return posthaste.HeaderInJSON(d.redact.ShowHeader(h))
}

// and adds another run's redaction.
func (d display) and(other posthaste.Redaction) display {
	d.redact = d.redact.And(other)
	return d
}
