package node

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"posthaste/internal/store"
)

// ErrInDoubt says that the answer to a commit was lost.
var ErrInDoubt = errors.New("postgres: it is not known whether the change took place")

// NoPartition is the database's code for a row without a partition: check_violation, of which
// the schema has no other.
const NoPartition = "23514"

// Unavailable marks errors that say nothing about the request: the database cannot be asked
// now, or its answer was lost.
func Unavailable(err error) error {
	if err == nil || !IsUnavailable(err) {
		return err
	}
	if said, ok := errors.AsType[*pgconn.PgError](err); ok && isUnknownStatement(said.Code) {
		err = fmt.Errorf("a pooler between does not track prepared statements: add default_query_exec_mode=exec to the URL of the database: %w", err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// IsUnavailable reports whether Unavailable marks an error.
func IsUnavailable(err error) bool {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		return IsTransient(said.Code)
	}
	if errors.Is(err, ErrInDoubt) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	if errors.Is(err, pgconn.ErrReadOnlyConnection) || errors.Is(err, pgconn.ErrStandbyConnection) {
		return true // another one is becoming the primary
	}
	_, network := errors.AsType[net.Error](err)
	return network || pgconn.SafeToRetry(err)
}

// transientClasses are SQLSTATE classes of a database that starts, stops or is overloaded.
var transientClasses = []string{
	"08", // connection exception
	"40", // transaction rollback: another one was in its way
	"53", // insufficient resources
	"57", // operator intervention: it starts, is shut down, or was promoted
	"58", // system error
}

// IsTransient reports whether a retry may succeed: also after an idle transaction was ended,
// on a standby (which does not support transactions that may write), after a lock timeout, and for
// want of a partition.
func IsTransient(code string) bool {
	const idleTransaction, notSupported, lockTimeout = "25P03", "0A000", "55P03"
	return code == idleTransaction || code == readOnly || code == notSupported || code == lockTimeout || code == NoPartition || isUnknownStatement(code) || slices.Contains(transientClasses, code[:min(2, len(code))])
}

// readOnly is the code of a standby to which somebody writes: a failover is not over yet.
const readOnly = "25006"

func isReadOnly(err error) bool {
	said, ok := errors.AsType[*pgconn.PgError](err)
	return ok && said.Code == readOnly
}

// isUnknownStatement reports a pooler that does not track prepared statements.
func isUnknownStatement(code string) bool {
	const invalidStatementName, duplicateStatement = "26000", "42P05"
	return code == invalidStatementName || code == duplicateStatement
}
