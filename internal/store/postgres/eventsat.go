package postgres

import (
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store/index"
)

// The block that holds a position is known once the first positions of blocks are known. Those
// are read for a whole range if it has at most one block for each wanted position.

const fewEvents = 128 // up to which blocks are looked up one by one

// eventsAt reads the events at some positions, in the query's order.
func (r *logReader) eventsAt(positions []posthaste.Position) ([]posthaste.Event, error) {
	wanted := slices.Sorted(slices.Values(positions))
	scan := func(row pgx.CollectableRow) ([]posthaste.Event, error) {
		return scanEvents(row, func(at posthaste.Position) bool {
			_, is := slices.BinarySearch(wanted, at)
			return is
		})
	}
	blocks, err := r.blocksOf(wanted, scan)
	return r.ordered(slices.Concat(blocks...)), err
}

// blocksOf reads the blocks of ascending positions.
func (r *logReader) blocksOf(wanted []posthaste.Position, scan func(pgx.CollectableRow) ([]posthaste.Event, error)) ([][]posthaste.Event, error) {
	if len(wanted) > fewEvents {
		begins, err := r.beginsOfRange(wanted[0], wanted[len(wanted)-1], len(wanted)+1)
		if err != nil {
			return nil, err
		}
		if len(begins) <= len(wanted) {
			return r.blocksAt(beginsHolding(begins, wanted), scan)
		}
	}
	return rows(r.ctx, r.q, scan, `
		SELECT DISTINCT ON (found.first) found.first, found.block
		FROM unnest($2::bigint[]) AS c (at), LATERAL (`+lastBlock("$3")+` UNION ALL `+lastBlock("$4")+` LIMIT 1) AS found`,
		r.user, int64s(wanted), int64(nearSpan), int64(index.MaxSpan),
		int64(max(wanted[0], index.MaxSpan)-index.MaxSpan), int64(wanted[len(wanted)-1]))
}

// nearSpan is where the block of a position is looked for first: PostgreSQL reads a whole
// index page of a range, which may be many blocks.
const nearSpan = index.MaxSpan / 64

// lastBlock selects the last block that begins within a span before c.at. The second range
// lets PostgreSQL plan for fewer days.
func lastBlock(span string) string {
	return `(
		SELECT e.first, e.block FROM posthaste.events e
		WHERE e.user_id = $1 AND e.first BETWEEN c.at - ` + span + ` AND c.at AND e.first BETWEEN $5 AND $6
		ORDER BY e.first DESC LIMIT 1)`
}

// beginsOfRange returns the first positions of the blocks of a range, ascending, up to a
// limit.
func (r *logReader) beginsOfRange(from, to posthaste.Position, atMost int) ([]int64, error) {
	return rows(r.ctx, r.q, pgx.RowTo[int64], `
		SELECT first FROM posthaste.events
		WHERE user_id = $1 AND first BETWEEN `+leastHolding2+` AND $3 AND first >= `+blockHolding2+`
		ORDER BY first LIMIT $4`, r.user, int64(from), int64(to), atMost)
}

// blockHolding2 is the first position of the block that may hold the position $2, or $2 if
// there is none.
var blockHolding2 = fmt.Sprintf(`coalesce((
	SELECT first FROM posthaste.events
	WHERE user_id = $1 AND first BETWEEN %s AND $2 ORDER BY first DESC LIMIT 1), $2)`, leastHolding2)

// leastHolding2 is a lower bound of it, which lets PostgreSQL plan for fewer days.
var leastHolding2 = fmt.Sprintf(`$2 - %d`, int64(index.MaxSpan))

// beginsHolding returns the blocks that may hold any of some positions. Both ascend.
func beginsHolding(begins []int64, wanted []posthaste.Position) (holding []int64) {
	for i, begin := range begins {
		from, _ := slices.BinarySearch(wanted, posthaste.Position(begin))
		to := len(wanted)
		if i+1 < len(begins) {
			to, _ = slices.BinarySearch(wanted, posthaste.Position(begins[i+1]))
		}
		if from < to {
			holding = append(holding, begin)
		}
	}
	return holding
}

// blocksAt reads the blocks at ascending first positions.
func (r *logReader) blocksAt(begins []int64, scan func(pgx.CollectableRow) ([]posthaste.Event, error)) ([][]posthaste.Event, error) {
	if len(begins) == 0 {
		return nil, nil
	}
	return rows(r.ctx, r.q, scan, `
		SELECT first, block FROM posthaste.events
		WHERE user_id = $1 AND first = ANY($2) AND first BETWEEN $3 AND $4`,
		r.user, begins, begins[0], begins[len(begins)-1])
}
