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
	due *int64

	filed index.Filed
	err   error // what is wrong with it
}

// recordsAtOnce is how many records are checked together, if they are not large.
const recordsAtOnce = 100

// records checks records, what they are found by, and that they agree with each other.
func (c *checker) records() error {
	last := &checkedRecord{}
	for {
		some, err := rows(c.ctx, c.tx, scanRecord, `
			SELECT user_id, kind, key, value, due FROM (
				SELECT *, sum(octet_length(value)) OVER (ORDER BY user_id, kind, key) - octet_length(value) AS before FROM (
					SELECT * FROM posthaste.records
					WHERE (user_id, kind, key) > ($1, $2, $3) ORDER BY user_id, kind, key LIMIT $4) AS first) AS sized
			WHERE before < $5 ORDER BY user_id, kind, key`,
			last.User, int16(last.Kind), append([]byte{}, last.Key...), recordsAtOnce, maxPageBytes)
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
	err := r.Scan(&c.User, &kind, &c.Key, &c.Value, &c.due)
	c.Kind = store.ItemKind(kind)
	return &c, err
}

// ofUser checks some records of a user.
func (c *checker) ofUser(some []*checkedRecord) error {
	readers := map[pgx.Tx]*reader{}
	readerOf := func(partition string) *reader {
		tx := c.txOf(partition)
		if readers[tx] == nil {
			cache := newReadCache()
			readers[tx] = &reader{outside{tx, c.ctx}, &cache, c.ctx, nil, partition}
		}
		return readers[tx]
	}
	user := some[0].User
	reader := wholeReader{readerOf(user), user, c.divisionOf(user), readerOf}
	var others []store.RecordKey
	for _, r := range some {
		r.file(reader)
		if r.filed.Run != 0 {
			others = append(others, index.RunKey(r.filed.Run))
		}
		if r.filed.Ref != nil {
			others = append(others, r.filed.Ref.RecordKey)
		}
	}
	if err := c.checkTerms(some[0].User, some); err != nil {
		return err
	}
	if err := reader.fetch(others); err != nil {
		return err
	}
	for _, r := range some {
		if r.err == nil {
			r.err = c.inPlace(r.User, store.RecordKey{Kind: r.Kind, Key: r.Key}.Slot())
		}
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
	r.err = same("the time it is found by", r.due, milli(r.filed.DueAt))
}

// indexOf is the index of a kind of records of a user.
type indexOf struct {
	user string
	kind store.ItemKind
}

// checkTerms checks that records of a user are found by their terms, and counts those.
func (c *checker) checkTerms(user string, some []*checkedRecord) error {
	var wanted []termOf
	at := map[indexOf]map[int64]*checkedRecord{}
	for _, r := range some {
		of := indexOf{user, r.Kind}
		if r.err != nil {
			c.unreadable[of] = true
			continue
		}
		if len(r.filed.Terms) == 0 {
			continue
		}
		if at[of] == nil {
			at[of] = map[int64]*checkedRecord{}
		}
		at[of][int64(positionAt(r.Key))] = r
		terms := termColumns(r.filed.Terms)
		slices.Sort(terms)
		for _, t := range slices.Compact(terms) {
			wanted = append(wanted, recordOf{user, r.Kind, string(r.Key)}.term(t))
			c.indexed[of]++
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	missing, err := rows(c.ctx, c.tx, pgx.RowToStructByPos[missingTerm], `
		SELECT DISTINCT kind, at FROM unnest($1::text[], $2::smallint[], $3::bigint[], $4::bigint[]) AS w (user_id, kind, term, at)
		WHERE NOT EXISTS (
			SELECT FROM posthaste.terms t WHERE t.user_id = w.user_id AND t.kind = w.kind AND t.term = w.term AND t.at = w.at)`,
		termRows(wanted)...)
	for _, m := range missing {
		at[indexOf{user, store.ItemKind(m.Kind)}][m.At].err = errors.New("its index does not agree with it")
	}
	return err
}

type missingTerm struct {
	Kind int16
	At   int64
}

// strayTerms checks that what is found is there, and that nothing is found by other terms than
// its own.
func (c *checker) strayTerms() error {
	err := c.reportRows(`index of kind %[2]d of user %[1]q: it finds something at %[3]d, which is not there`, `
		SELECT DISTINCT user_id, kind, at FROM posthaste.terms t WHERE NOT EXISTS (
			SELECT FROM posthaste.records r WHERE r.user_id = t.user_id AND r.kind = t.kind AND r.key = int8send(t.at))`)
	if err != nil {
		return err
	}
	var user string
	var kind int16
	var count int
	return c.scan([]any{&user, &kind, &count}, func() {
		of := indexOf{user, store.ItemKind(kind)}
		if want := c.indexed[of]; count > want && !c.unreadable[of] {
			c.Add("index of kind %d of user %q: it has %d terms, and should have %d", kind, user, count, want)
		}
	}, `SELECT user_id, kind, count(*) FROM posthaste.terms GROUP BY user_id, kind`)
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
