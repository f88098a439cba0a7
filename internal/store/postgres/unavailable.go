package postgres

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"posthaste/internal/store"
)

// unavailable marks an error that tells nothing of what was asked for, only that the
// database cannot be asked now, or did not say what became of it.
func unavailable(err error) error {
	if err == nil || !isUnavailable(err) {
		return err
	}
	if said, ok := errors.AsType[*pgconn.PgError](err); ok && isUnknownStatement(said.Code) {
		err = fmt.Errorf("a pooler lies between that does not follow prepared statements: add default_query_exec_mode=exec to the URL of the database: %w", err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

func isUnavailable(err error) bool {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		return isTransient(said.Code)
	}
	if errors.Is(err, errInDoubt) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	if errors.Is(err, pgconn.ErrReadOnlyConnection) || errors.Is(err, pgconn.ErrStandbyConnection) {
		return true // another one is becoming the primary
	}
	_, network := errors.AsType[net.Error](err)
	return network || pgconn.SafeToRetry(err)
}

// passing are the classes of what a database says while it starts, ends, or has more
// to do than it can; a class is the first two letters of a code.
var transientClasses = []string{
	"08", // connection exception
	"40", // transaction rollback: another one was in its way
	"53", // insufficient resources
	"57", // operator intervention: it starts, is shut down, or was promoted
	"58", // system error
}

// isPassing reports whether the database may say another thing a moment later. That it ended
// a transaction it had heard nothing of is in class 25, the only such code there; that this
// one is a standby, which refuses writes, is another; that a lock was not to be had in time is
// a third. The missing partition of a day is made the next time.
func isTransient(code string) bool {
	const silent, readOnly, locked = "25P03", "25006", "55P03"
	return code == silent || code == readOnly || code == locked || code == noPartition || isUnknownStatement(code) || slices.Contains(transientClasses, code[:min(2, len(code))])
}

// isUnfollowed reports whether the database has said that a statement which was prepared is
// not there, or one that was not is: a pooler asked another connection than before.
func isUnknownStatement(code string) bool {
	const invalidStatementName, duplicateStatement = "26000", "42P05"
	return code == invalidStatementName || code == duplicateStatement
}
