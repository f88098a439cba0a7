package dispatch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// These failures are hard to bring about; the others are tested with servers.
func TestExplain(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	certificate := func(err error) error { return &tls.CertificateVerificationError{Err: err} }
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"no route", dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "a.test cannot be reached"},
		{"no network", dial(os.NewSyscallError("connect", syscall.ENETUNREACH)), "a.test cannot be reached"},
		{"slow connection", dial(os.ErrDeadlineExceeded), "connecting to a.test took too long"},
		{"no descriptors", dial(os.NewSyscallError("socket", syscall.EMFILE)), "no connection to a.test could be made"},
		{"name server failed", dial(&net.DNSError{Err: "server misbehaving"}), "looking up the address of a.test failed"},
		{"expired", certificate(x509.CertificateInvalidError{Reason: x509.Expired}), "the certificate of a.test has expired or is not valid yet"},
		{"not for servers", certificate(x509.CertificateInvalidError{Reason: x509.IncompatibleUsage}), "the certificate of a.test is not valid"},
		{"connection lost", &net.OpError{Op: "read", Err: syscall.ETIMEDOUT}, "a.test closed the connection without a response"},
		{"pipe", fmt.Errorf("broken: %w", &net.OpError{Op: "write", Err: syscall.EPIPE}), "a.test closed the connection without a response"},
		{"idle connection", errors.New("http: server closed idle connection"), "a.test closed the connection without a response"},
		{"large headers over HTTP/2", errors.New("http2: response header list larger than advertised limit"), "the response headers of a.test are too large"},
		{"deadline", context.DeadlineExceeded, "no response within 1m30s"},
		{"deadline within the answer", fmt.Errorf("%w: %w", errIncomplete, context.DeadlineExceeded), "no complete response within 1m30s"},
		{"anything else", errors.New("secret internals"), "a.test sent no valid HTTP response"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := explain(test.err, "a.test", 90*time.Second); got != test.want {
				t.Errorf("explained as %q, want %q", got, test.want)
			}
		})
	}
}
