package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"posthaste/internal/store"
)

func TestUnavailable(t *testing.T) {
	tests := map[string]struct {
		err  error
		want bool
	}{
		"nothing":                       {nil, false},
		"what a rule says":              {store.ErrConflict, false},
		"a connection that was refused": {fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), true},
		"a connection that ended":       {io.ErrUnexpectedEOF, true},
		"a commit without an answer":    {fmt.Errorf("%w: %w", ErrInDoubt, io.EOF), true},
		"no answer in time":             {context.DeadlineExceeded, true},
		"a database that starts":        {&pgconn.PgError{Code: "57P03"}, true},
		"a database without room":       {&pgconn.PgError{Code: "53300"}, true},
		"a standby":                     {&pgconn.PgError{Code: "25006"}, true},
		"a transaction on a standby":    {&pgconn.PgError{Code: "0A000"}, true},
		"a statement that is not there": {&pgconn.PgError{Code: "26000"}, true},
		"a statement that is there":     {&pgconn.PgError{Code: "42P05"}, true},
		"a deadlock":                    {&pgconn.PgError{Code: "40P01"}, true},
		"a lock that somebody keeps":    {&pgconn.PgError{Code: "55P03"}, true},
		"a turn that was taken away":    {&pgconn.PgError{Code: "25P03"}, true},
		"a wrong password":              {&pgconn.PgError{Code: "28P01"}, false},
		"no such database":              {&pgconn.PgError{Code: "3D000"}, false},
		"no primary":                    {connectError(t, pgconn.ErrReadOnlyConnection), true},
		"nobody who listens":            {connectError(t, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), true},
		"a certificate of nobody known": {connectError(t, x509.UnknownAuthorityError{}), false},
		"no such table":                 {&pgconn.PgError{Code: "42P01"}, false},
		"a transaction that failed":     {&pgconn.PgError{Code: "25P02"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Unavailable(test.err)
			if !errors.Is(got, test.err) || errors.Is(got, store.ErrUnavailable) != test.want {
				t.Errorf("%v becomes %v; want it marked: %t", test.err, got, test.want)
			}
		})
	}
}

// connectError returns what becomes of an error while a connection is made.
func connectError(t *testing.T, cause error) error {
	t.Helper()
	config, err := pgconn.ParseConfig("postgres://127.0.0.1/posthaste?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	config.DialFunc = func(context.Context, string, string) (net.Conn, error) { return nil, cause }
	_, err = pgconn.ConnectConfig(t.Context(), config)
	if _, is := errors.AsType[*pgconn.ConnectError](err); !is {
		t.Fatalf("connecting returns %v, want a ConnectError", err)
	}
	return err
}
