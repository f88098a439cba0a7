package backoff

import (
	"math"
	"time"

	"posthaste"
)

// Bounds on the text of an expression.
const (
	maxSource  = 1024 // bytes
	maxNesting = 32   // parentheses, calls and signs inside one another
)

// Expression is a publisher's Retry-Delay: how long to wait before a retry, in
// milliseconds, as arithmetic over the variable "retried". Parse makes one; it
// never changes and may be used by many goroutines.
type Expression struct {
	value term
}

// term computes one part of an expression for a number of earlier retries.
type term func(retried float64) float64

// Parse reads an expression of at most 1024 bytes (contract, messages 1.4):
// decimal numbers, the variable retried, + - * / %, unary minus, parentheses,
// and the functions pow exp sqrt abs floor ceil round min max. Names are
// case-sensitive. The error has CodeInvalid; its sentence starts with the
// expression, so that a caller can put a parameter's name in front.
func Parse(source string) (Expression, error) {
	if len(source) > maxSource {
		return Expression{}, posthaste.Invalidf("%.40q… is %d bytes long, a delay expression has at most %d",
			source, len(source), maxSource)
	}
	p := parser{source: source}
	value, err := p.whole()
	if err != nil {
		return Expression{}, posthaste.Invalidf("%q is not a delay expression: %v", source, err)
	}
	return Expression{value}, nil
}

// Check returns why an expression cannot be accepted as the value of the named
// parameter: it must parse and have a finite value for retried = 0. What it
// gives for later retries cannot be known here; Next falls back on the default
// when that is no number. The error has CodeInvalid.
func Check(parameter, source string) error {
	expression, err := Parse(source)
	if err != nil {
		return posthaste.Invalidf("%s %v", parameter, err)
	}
	if _, ok := expression.Delay(0); !ok {
		return posthaste.Invalidf("%s %q has no finite value for retried = 0, it must be a number of milliseconds",
			parameter, source)
	}
	return nil
}

// Delay returns the wait before the retry that follows retried earlier ones.
// A negative value is no wait, and 24 hours is the longest one. It returns
// false when the value is infinite or not a number.
func (e Expression) Delay(retried int) (time.Duration, bool) {
	ms := e.value(float64(retried))
	if math.IsNaN(ms) || math.IsInf(ms, 0) {
		return 0, false
	}
	ms = min(max(ms, 0), float64(longest.Milliseconds()))
	return time.Duration(ms * float64(time.Millisecond)), true
}
