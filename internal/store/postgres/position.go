package postgres

import (
	"github.com/jackc/pgx/v5"

	"posthaste"
)

// positionsAtOnce is how many positions a transaction takes: enough for most. What it
// does not use nobody uses.
const positionsAtOnce = 1024

// positions are some that a turn has taken and not used.
type positions struct {
	next posthaste.Position
	left int
}

// takePositions asks for positions that follow each other, none below the lowest.
func (t *userTx) takePositions(batch *pgx.Batch, count int, lowest posthaste.Position) {
	batch.Queue(`SELECT posthaste.take_positions($1, $2)`, count, int64(lowest)).QueryRow(func(r pgx.Row) error {
		var first int64
		err := r.Scan(&first)
		t.free = positions{posthaste.Position(first), count}
		return err
	})
}

// nextPosition takes the next position for a user's log. Positions are taken in the
// user's turn and ascend over all users, so they ascend in the order of commit for
// each.
func (tx *tx) nextPosition(user string) posthaste.Position {
	tx.writes++
	tx.reserve(1)
	p := tx.free.next
	tx.free.next++
	tx.free.left--
	tx.ends[user] = p
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
	tx.free = positions{}
	_ = tx.ask(func(batch *pgx.Batch) { tx.takePositions(batch, max(n, positionsAtOnce), lowest) }) // a failure is the turn's
}
