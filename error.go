package posthaste

import (
	"errors"
	"fmt"
)

// Code says what kind of failure an Error is, for programs.
// The HTTP surface maps each code to one status.
type Code string

// The codes an Error can carry.
const (
	CodeInvalid      Code = "invalid"      // the request is malformed: 400
	CodeUnauthorized Code = "unauthorized" // no token, or an unknown one: 401
	CodeForbidden    Code = "forbidden"    // the token may not do this: 403
	CodeNotFound     Code = "not_found"    // no such thing for this user: 404
	CodeMethod       Code = "method"       // the route exists, the method does not: 405
	CodeConflict     Code = "conflict"     // the state of the thing forbids it: 409
	CodeLimit        Code = "limit"        // a configured limit would be exceeded: 412
	CodeEnded        Code = "run_ended"    // the workflow run it is for has ended: 400
	CodeTooLarge     Code = "too_large"    // the body is over its limit: 413
	CodeRateLimited  Code = "rate_limited" // too many requests: 429
	CodeUnavailable  Code = "unavailable"  // we cannot do it now, try again: 503
	CodeInternal     Code = "internal"     // our fault: 500
)

// Error is a failure with a code for machines, a sentence for the caller, and
// the cause for our own log. The cause is never shown to a caller.
type Error struct {
	Code    Code
	Message string
	Err     error
}

// Error returns the sentence, and the cause behind it if there is one.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error whose message is the formatted sentence.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalidf makes an Error with CodeInvalid, the most common one.
func Invalidf(format string, args ...any) *Error {
	return Errorf(CodeInvalid, format, args...)
}

// ErrorCode returns the code of the first Error in err's chain,
// CodeInternal when there is none, and "" for nil.
func ErrorCode(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
