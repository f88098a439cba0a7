package node

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"posthaste/internal/store"
)

// Calls are refused, with the cause, from the first failure to the next answer.
func TestOutage(t *testing.T) {
	var log bytes.Buffer
	reset := 0
	n := New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Back: func() { reset++ }})
	n.Lost(&pgconn.PgError{Code: "42P01"}) // it answers
	if err := n.Refuse(); err != nil || n.Away() {
		t.Errorf("Refuse = %v, want nothing", err)
	}
	for range 2 {
		n.Lost(io.ErrUnexpectedEOF)
		if err := n.Refuse(); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, io.ErrUnexpectedEOF) || !n.Away() {
			t.Errorf("Refuse = %v, want ErrUnavailable with the cause", err)
		}
	}
	for range 2 {
		n.outage.end()
	}
	if err := n.Refuse(); err != nil || reset != 1 {
		t.Errorf("Refuse = %v after it answers, and connections were dropped %d times, want once", err, reset)
	}
	if strings.Count(log.String(), "\n") != 2 || !strings.Contains(log.String(), "refused=2") {
		t.Errorf("the log is not a line at each end:\n%s", &log)
	}
}
