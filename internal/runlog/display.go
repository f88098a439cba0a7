package runlog

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"

	"posthaste"
)

// display says how much of a run may be shown: what it redacts (contract, workflows
// 8.4), and how many bytes of a body the reader wants.
type display struct {
	redact posthaste.Redaction
	limit  int
}

// body shows what a run was given or made.
func (d display) body(data []byte) string {
	if d.redact.Body && len(data) > 0 && d.limit > 0 {
		return posthaste.Redacted(data)
	}
	return d.answer(data)
}

// answer shows what a destination answered to a delivery, which is not redacted in
// the log of messages either. What is no text is shown in base64. What is left out is not
// kept in memory by the rest.
func (d display) answer(data []byte) string {
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

// result shows what a run returned, nil if that is nothing.
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

// and adds what another run redacts.
func (d display) and(other posthaste.Redaction) display {
	d.redact = d.redact.And(other)
	return d
}
