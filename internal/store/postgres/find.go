package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
)

// Dead letters and runs come and go one by one, so each of their terms is a row of its own,
// and PostgreSQL intersects them.

// foundAtOnce bounds how many candidates with one term are tested for the others.
const foundAtOnce = 2000

// without returns the elements that are not among others.
func without[T comparable](some, others []T) []T {
	return slices.DeleteFunc(slices.Clone(some), func(t T) bool { return slices.Contains(others, t) })
}

type finder struct {
	user        string
	kind        int16 // of terms
	low, high   posthaste.Position
	oldestFirst bool
	limit       int            // of the page
	terms       [][]store.Term // what the index knows of the filter
	complete    bool           // which is all of it
	only        []int64        // the only positions there may be; nil: any
}

// findings are positions in order, and where the next ones begin.
type findings struct {
	at   []int64
	more bool
	next posthaste.Position
}

// find returns the next positions that the index proposes.
func (f *finder) find(ctx context.Context, q querier) (findings, error) {
	atMost := f.limit + 1
	if !f.complete {
		atMost = max(atMost, foundAtOnce)
	}
	if len(f.terms) > 0 && f.only == nil {
		return f.search(ctx, q, atMost)
	}
	at, err := f.listRecords(ctx, q, atMost)
	return f.findings(at, at, atMost), err
}

// findings returns the passing ones of the positions that were looked at, atMost of them
// unless there were no more. If the index knows the whole filter, a page needs only one
// position beyond it.
func (f *finder) findings(passing, looked []int64, atMost int) findings {
	if needed := f.limit + 1; f.complete && len(passing) > needed {
		return findings{passing[:needed], true, posthaste.Position(passing[needed])}
	}
	result := findings{at: passing}
	if len(looked) == atMost {
		result.more, result.next = true, beyond(posthaste.Position(looked[atMost-1]), f.oldestFirst)
	}
	return result
}

// candidate is a position with a term of the leading field.
type candidate struct {
	at     int64
	passes bool // it has one of each other field
}

// search reads positions with the rarest field.
func (f *finder) search(ctx context.Context, q querier, atMost int) (findings, error) {
	leads, err := f.rarest(ctx, q)
	if err != nil {
		return findings{}, err
	}
	if len(f.terms) > 1 {
		atMost = max(atMost, foundAtOnce)
	}
	args := []any{f.user, f.kind, int64(f.low), int64(f.high), atMost, termColumns(f.terms[leads])}
	passes := `true`
	for i, terms := range f.terms {
		if i != leads {
			args = append(args, termColumns(terms))
			passes += fmt.Sprintf(` AND EXISTS (SELECT FROM posthaste.terms o
				WHERE o.user_id = $1 AND o.kind = $2 AND o.term = ANY($%d) AND o.at = c.at)`, len(args))
		}
	}
	order := direction(f.oldestFirst)
	candidates, err := rows(ctx, q, func(r pgx.CollectableRow) (c candidate, err error) {
		err = r.Scan(&c.at, &c.passes)
		return c, err
	}, `
		SELECT c.at, `+passes+` FROM (
			SELECT DISTINCT p.at FROM unnest($6::bigint[]) AS t (term), LATERAL (
				SELECT at FROM posthaste.terms
				WHERE user_id = $1 AND kind = $2 AND term = t.term AND at BETWEEN $3 AND $4
				ORDER BY at `+order+` LIMIT $5) AS p
			ORDER BY p.at `+order+` LIMIT $5) AS c
		ORDER BY c.at `+order, args...)
	var passing, looked []int64
	for _, c := range candidates {
		if looked = append(looked, c.at); c.passes {
			passing = append(passing, c.at)
		}
	}
	return f.findings(passing, looked, atMost), err
}

// rarest returns the field with the fewest positions, up to a sample.
func (f *finder) rarest(ctx context.Context, q querier) (int, error) {
	if len(f.terms) == 1 {
		return 0, nil
	}
	var fields, terms []int64
	for i, alternatives := range f.terms {
		for _, t := range alternatives {
			fields, terms = append(fields, int64(i)), append(terms, termColumn(t))
		}
	}
	return row(ctx, q, pgx.RowTo[int], `
		SELECT t.field FROM unnest($5::bigint[], $6::bigint[]) AS t (field, term), LATERAL (
			SELECT count(*) AS n FROM (
				SELECT FROM posthaste.terms
				WHERE user_id = $1 AND kind = $2 AND term = t.term AND at BETWEEN $3 AND $4 LIMIT 1000) AS sample) AS counted
		GROUP BY t.field ORDER BY sum(counted.n) LIMIT 1`,
		f.user, f.kind, int64(f.low), int64(f.high), fields, terms)
}
