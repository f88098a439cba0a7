package posthaste

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
)

// Redaction names the parts of a message that logs, message reads and dead
// letters must not show. Deliveries always carry the real values.
type Redaction struct {
	Body       bool
	AllHeaders bool
	Headers    []string // canonical names
}

// IsZero reports whether nothing is redacted.
func (r Redaction) IsZero() bool { return !r.Body && !r.AllHeaders && len(r.Headers) == 0 }

// And returns what hides all that either of two hides.
func (r Redaction) And(other Redaction) Redaction {
	return Redaction{
		Body:       r.Body || other.Body,
		AllHeaders: r.AllHeaders || other.AllHeaders,
		Headers:    slices.Concat(r.Headers, other.Headers),
	}
}

// Redacted returns the text that stands for a redacted value:
// "REDACTED:" and the lower-case hex SHA-256 of its bytes.
func Redacted(value []byte) string {
	sum := sha256.Sum256(value)
	return "REDACTED:" + hex.EncodeToString(sum[:])
}

// ShowHeader returns the header as it may be shown. It is the header itself
// when nothing of it is redacted.
func (r Redaction) ShowHeader(header http.Header) http.Header {
	if !r.AllHeaders && len(r.Headers) == 0 {
		return header
	}
	shown := make(http.Header, len(header))
	for name, values := range header {
		if r.AllHeaders || slices.Contains(r.Headers, name) {
			hidden := make([]string, len(values))
			for i, value := range values {
				hidden[i] = Redacted([]byte(value))
			}
			values = hidden
		}
		shown[name] = values
	}
	return shown
}
