package dispatch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"posthaste/internal/backoff"
)

const abandoned = "the attempt was abandoned"

// explain returns a sentence about why there is no complete response from host within limit. It
// reveals nothing of our network but the host as written in the URL.
func explain(err error, host string, limit time.Duration) string {
	for _, try := range []func(error, string) string{
		explainProxy, explainRefusal, explainLookup, explainCertificate, explainConnection,
	} {
		if text := try(err, host); text != "" {
			return text
		}
	}
	return explainResponse(err, host, limit)
}

// explainProxy comes first, because the others would blame the host.
func explainProxy(err error, host string) string {
	if errors.Is(err, errProxyRefused) {
		return "the proxy refused to connect to " + host
	}
	if errors.Is(err, errNoProxy) {
		return "no proxy could be chosen for " + host
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "proxyconnect" {
		return "no connection to the proxy could be made"
	}
	return ""
}

func explainRefusal(err error, host string) string {
	refusal, ok := errors.AsType[*refusalError](err)
	if !ok {
		return ""
	}
	return host + " resolves to " + refusal.kind + notDelivered
}

func explainLookup(err error, host string) string {
	lookup, ok := errors.AsType[*net.DNSError](err)
	switch {
	case !ok:
		return ""
	case lookup.IsNotFound:
		return "no address is known for " + host
	case lookup.IsTimeout:
		return "looking up the address of " + host + " took too long"
	default:
		return "looking up the address of " + host + " failed"
	}
}

func explainCertificate(err error, host string) string {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate of " + host + " is for another name"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the certificate of " + host + " is signed by an unknown authority"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "the certificate of " + host + " has expired or is not valid yet"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the certificate of " + host + " is not valid"
	}
	return ""
}

// explainConnection explains failures before the request.
func explainConnection(err error, host string) string {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return host + " does not speak TLS"
	}
	op, ok := errors.AsType[*net.OpError](err)
	if !ok {
		return ""
	}
	switch op.Op {
	case "dial":
		return explainDial(op, host)
	case "remote error", "local error":
		return "the TLS handshake with " + host + " failed"
	}
	return ""
}

func explainDial(op *net.OpError, host string) string {
	switch {
	case errors.Is(op, syscall.ECONNREFUSED):
		return "connection refused by " + host
	case errors.Is(op, syscall.EHOSTUNREACH), errors.Is(op, syscall.ENETUNREACH):
		return host + " cannot be reached"
	case op.Timeout():
		return "connecting to " + host + " took too long"
	default:
		return "no connection to " + host + " could be made"
	}
}

// explainResponse explains failures after the request was sent.
func explainResponse(err error, host string, limit time.Duration) string {
	switch {
	case errors.Is(err, errNoMemory):
		return "no memory was left for the response of " + host + " beside other large responses"
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(err, errIncomplete):
		return "no complete response within " + backoff.FormatDuration(limit)
	case errors.Is(err, context.DeadlineExceeded):
		return "no response within " + backoff.FormatDuration(limit)
	case isDisconnect(err) && errors.Is(err, errIncomplete):
		return host + " closed the connection before its response was complete"
	case isDisconnect(err):
		return host + " closed the connection without a response"
	case isHandshakeTimeout(err):
		return "the TLS handshake with " + host + " took too long"
	case isOversizedHeader(err):
		return "the response headers of " + host + " are too large"
	default:
		return host + " sent no valid HTTP response"
	}
}

// isDisconnect reports whether the destination closed the connection or, in HTTP/2, the stream.
// Package http exports no values for some of these errors.
func isDisconnect(err error) bool {
	text := err.Error()
	return isHangUp(err) ||
		strings.Contains(text, "server sent GOAWAY") ||
		strings.Contains(text, "received from peer") // a reset
}

// isHangUp reports whether the connection was lost without a message.
func isHangUp(err error) bool {
	_, network := errors.AsType[*net.OpError](err)
	return network ||
		errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) ||
		strings.Contains(err.Error(), "server closed idle connection")
}

// isHandshakeTimeout: besides connecting, only the TLS handshake has a timeout of its own.
func isHandshakeTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// isOversizedHeader compares text, because package http exports no value for this error.
func isOversizedHeader(err error) bool {
	text := err.Error()
	return strings.Contains(text, "response headers exceeded") || strings.Contains(text, "response header list larger")
}
