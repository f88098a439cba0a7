package posthaste

import (
	"encoding/hex"
	"strings"
)

// TraceContext is a place in a trace, in the form of the header traceparent of W3C
// Trace Context: version, trace, span and flags. "" is none.
type TraceContext string

// ParseTraceContext reads a header. ok is false for one that is to be ignored: of a
// form that is not known, or without a trace or a span.
func ParseTraceContext(text string) (trace TraceContext, ok bool) {
	parts := strings.Split(text, "-")
	if len(parts) != 4 || parts[0] != "00" {
		return "", false
	}
	for i, digits := range []int{2, 32, 16, 2} {
		if _, err := hex.DecodeString(parts[i]); err != nil || len(parts[i]) != digits || strings.ToLower(parts[i]) != parts[i] {
			return "", false
		}
	}
	if strings.Trim(parts[1], "0") == "" || strings.Trim(parts[2], "0") == "" {
		return "", false
	}
	return TraceContext(text), true
}
