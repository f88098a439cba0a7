package postgres

import (
	"github.com/jackc/pgx/v5"

	"posthaste"
)

// positionsAtOnce is how many positions a transaction takes: enough for most. What it
// does not use nobody uses.
const positionsAtOnce = 256

// positions are some that a turn has taken and not used.
type positions struct {
	next posthaste.Position
	left int
}

// nextPosition takes the next position for a user's log. Positions are taken in the
// user's turn and ascend over all users, so they ascend in the order of commit for
// each. A failure is kept for the end of the transaction.
func (tx *tx) nextPosition(user string) posthaste.Position {
	tx.reserve(1)
	p := tx.free.next
	tx.free.next++
	tx.free.left--
	tx.own.ends[user] = p
	return p
}

// peek returns the n-th position from here, which the n-th event will have.
func (tx *tx) peek(n int) posthaste.Position {
	tx.reserve(n)
	return tx.free.next + posthaste.Position(n-1)
}

// reserve sees to it that the next n positions follow each other, and are not below
// those of the present time.
func (tx *tx) reserve(n int) {
	lowest := posthaste.FirstPosition(tx.now)
	if tx.free.left >= n && tx.free.next >= lowest {
		return
	}
	count := max(n, positionsAtOnce)
	first, err := row(tx.ctx, tx.pg, pgx.RowTo[int64], `SELECT posthaste.take_positions($1, $2)`, count, int64(lowest))
	if err != nil && tx.failed == nil {
		tx.failed = err
	}
	tx.free = positions{posthaste.Position(first), count}
}
