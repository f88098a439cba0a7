package postgres

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/store"
	"posthaste/internal/store/index"
)

// checkedRecord is a record and what finds it.
type checkedRecord struct {
	store.Item
	due   *int64
	terms []int64 // if its key is a position

	filed index.Filed
	err   error // what is wrong with it
}

// recordsAtOnce is how many records are checked together.
const recordsAtOnce = 100

// records checks records, what they are found by, and that they agree with each other.
func (c *checker) records() error {
	last := &checkedRecord{}
	for {
		some, err := rows(c.ctx, c.tx, scanRecord, `
			SELECT user_id, kind, key, value, due, CASE WHEN octet_length(key) = 8 THEN ARRAY(
				SELECT term FROM posthaste.terms t
				WHERE t.user_id = r.user_id AND t.kind = r.kind AND t.at = ('x' || encode(r.key, 'hex'))::bit(64)::bigint) END
			FROM posthaste.records r WHERE (user_id, kind, key) > ($1, $2, $3) ORDER BY user_id, kind, key LIMIT $4`,
			last.User, int16(last.Kind), append([]byte{}, last.Key...), recordsAtOnce)
		if err != nil || len(some) == 0 {
			return err
		}
		c.Rows += int64(len(some))
		for len(some) > 0 {
			n := slices.IndexFunc(some, func(r *checkedRecord) bool { return r.User != some[0].User })
			if n < 0 {
				n = len(some)
			}
			if err := c.ofUser(some[:n]); err != nil {
				return err
			}
			last, some = some[n-1], some[n:]
		}
	}
}

func scanRecord(r pgx.CollectableRow) (*checkedRecord, error) {
	var c checkedRecord
	var kind int16
	err := r.Scan(&c.User, &kind, &c.Key, &c.Value, &c.due, &c.terms)
	c.Kind = store.ItemKind(kind)
	return &c, err
}

// ofUser checks some records of a user.
func (c *checker) ofUser(some []*checkedRecord) error {
	cache := newReadCache()
	reader := &reader{outside{c.tx, c.ctx}, &cache, c.ctx, nil, some[0].User}
	var others store.Hint
	for _, r := range some {
		r.file(reader)
		if r.filed.Run != 0 {
			others.Records = append(others.Records, index.RunKey(r.filed.Run))
		}
		if r.filed.Ref != nil {
			others.Records = append(others.Records, r.filed.Ref.RecordKey)
		}
	}
	if err := reader.Fetch(others); err != nil {
		return err
	}
	for _, r := range some {
		if r.err == nil {
			r.err = index.Check(reader, &r.Item, r.filed)
		}
		c.countRecord(r.Kind)
		if r.err != nil && r.Kind == store.ItemSecret { // that of a copy
			c.Add("%v", r.err)
			continue
		}
		c.report(r.err, "record %q of kind %d of user %q", r.Key, r.Kind, r.User)
	}
	return nil
}

// file says what a record should be found by.
func (r *checkedRecord) file(reader store.Reader) {
	if r.Kind == 0 || r.Kind > store.ItemFailedRunID {
		r.err = errors.New("records of this kind are not known")
		return
	}
	if r.filed, r.err = index.Of(reader, &r.Item); r.err != nil {
		return
	}
	if r.err = same("the time it is found by", r.due, milli(r.filed.DueAt)); r.err == nil {
		r.err = sameTerms(r.terms, r.filed.Terms)
	}
}

func (c *checker) countRecord(kind store.ItemKind) {
	switch kind {
	case store.ItemDeadLetter:
		c.DeadLetters++
	case store.ItemRun:
		c.Runs++
	case store.ItemRunDeadLetter:
		c.FailedRuns++
	}
}
