package postgres

import (
	"context"
	"encoding/binary"
	"errors"
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

// finder runs a query for records of a user.
type finder struct {
	store.FindQuery
	user string
}

// Find implements store.Reader. It reads what it visits before it visits it.
func (r *reader) Find(query store.FindQuery, visit func(at posthaste.Position, value []byte) (full bool, err error)) (next posthaste.Position, more bool, err error) {
	query.High = min(query.High, posthaste.MaxPosition)
	f := &finder{query, r.user}
	found, err := f.find(r.ctx, r)
	if err != nil {
		return 0, false, err
	}
	records, err := f.read(r.ctx, r, found.at)
	if err != nil {
		return 0, false, err
	}
	for _, v := range records {
		at := positionAt(v.key)
		if v.value == nil {
			return at, true, nil
		}
		if full, err := visit(at, v.value); full || err != nil {
			return at, err == nil, err
		}
	}
	return found.next, found.more, nil
}

// findings are positions in order, and where the next ones begin.
type findings struct {
	at   []int64
	more bool
	next posthaste.Position
}

// find returns the next positions that the index proposes.
func (f *finder) find(ctx context.Context, q querier) (findings, error) {
	atMost := f.Limit + 1
	if len(f.Terms) > 0 && len(f.At) == 0 {
		return f.search(ctx, q, atMost)
	}
	at, err := f.list(ctx, q, atMost)
	return f.findings(at, at, atMost), err
}

// findings returns the passing ones of the positions that were looked at, atMost of them
// unless there were no more. A page needs only one position beyond it.
func (f *finder) findings(passing, looked []int64, atMost int) findings {
	if needed := f.Limit + 1; len(passing) > needed {
		return findings{passing[:needed], true, posthaste.Position(passing[needed])}
	}
	result := findings{at: passing}
	if len(looked) == atMost {
		result.more, result.next = true, beyond(posthaste.Position(looked[atMost-1]), f.OldestFirst)
	}
	return result
}

// positionKey is the key of a record at a position.
func positionKey[T ~int64 | ~uint64](at T) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(at))
}

var errNoPosition = errors.New("postgres: a key is not a position")

func scanPosition(r pgx.CollectableRow) (int64, error) {
	var key []byte
	err := r.Scan(&key)
	if err == nil && len(key) != 8 {
		err = errNoPosition
	}
	if err != nil {
		return 0, err
	}
	return int64(positionAt(key)), nil
}

// list returns positions whatever the terms of their records.
func (f *finder) list(ctx context.Context, q querier, atMost int) ([]int64, error) {
	var only [][]byte // NULL: any
	if len(f.At) > 0 {
		only = column(f.At, positionKey[posthaste.Position])
	}
	return rows(ctx, q, scanPosition, `
		SELECT key FROM posthaste.records
		WHERE user_id = $1 AND kind = $2 AND key BETWEEN $3 AND $4 AND ($5::bytea[] IS NULL OR key = ANY($5))
		ORDER BY key `+direction(f.OldestFirst)+` LIMIT $6`,
		f.user, int16(f.Kind), positionKey(f.Low), positionKey(f.High), only, atMost)
}

// read returns the records at positions in the query's order, up to the byte limit.
func (f *finder) read(ctx context.Context, q querier, at []int64) ([]storedValue, error) {
	if len(at) == 0 {
		return nil, nil
	}
	order := direction(f.OldestFirst)
	return rows(ctx, q, scanValue, `
		SELECT key, CASE WHEN total - size < $4 THEN value END, false FROM (
			SELECT key, value, octet_length(value) AS size, sum(octet_length(value)) OVER (ORDER BY key `+order+`) AS total
			FROM unnest($3::bytea[]) AS w (k), LATERAL (
				SELECT key, value FROM posthaste.records WHERE user_id = $1 AND kind = $2 AND key = w.k OFFSET 0) AS r) AS found
		ORDER BY key `+order, f.user, int16(f.Kind), column(at, positionKey[int64]), maxPageBytes)
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
	if len(f.Terms) > 1 {
		atMost = max(atMost, foundAtOnce)
	}
	args := []any{f.user, int16(f.Kind), int64(f.Low), int64(f.High), atMost, termColumns(f.Terms[leads])}
	passes := `true`
	for i, terms := range f.Terms {
		if i != leads {
			args = append(args, termColumns(terms))
			passes += fmt.Sprintf(` AND EXISTS (SELECT FROM posthaste.terms o
				WHERE o.user_id = $1 AND o.kind = $2 AND o.term = ANY($%d) AND o.at = c.at)`, len(args))
		}
	}
	order := direction(f.OldestFirst)
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
	if len(f.Terms) == 1 {
		return 0, nil
	}
	var fields, terms []int64
	for i, alternatives := range f.Terms {
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
		f.user, int16(f.Kind), int64(f.Low), int64(f.High), fields, terms)
}
