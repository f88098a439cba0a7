package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// Report is what Check has read and found.
type Report struct {
	Rows int64 `json:"rows"` // that were read
	store.Checked
}

// Check reads one snapshot of a database, which nodes may use meanwhile, and changes nothing.
// It checks every record, and whether indexes, lanes and counts agree with the records.
// Problems are in the report; an error means that there is none. Memory is bounded: a few
// numbers per user, and the terms of some messages.
func Check(ctx context.Context, url string) (report Report, err error) {
	report.Problems = []string{} // not null in JSON
	pool, err := dial(ctx, url)
	if err != nil {
		return report, err
	}
	defer pool.Close()
	if err := migrations.check(ctx, pool); err != nil {
		return report, err
	}
	asOfNow := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, pool, asOfNow, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, beginCheck); err != nil {
			return err
		}
		c := &checker{ctx: ctx, tx: tx, Report: &report, seed: maphash.MakeSeed()}
		return c.all()
	})
	return report, err
}

// beginCheck keeps retention from dropping a day's partitions until the check ends. The first
// query takes the snapshot.
const beginCheck = `
	SET LOCAL statement_timeout = 0; SET LOCAL jit = off;
	LOCK TABLE posthaste.events, posthaste.postings, posthaste.responses IN ACCESS SHARE MODE`

type checker struct {
	ctx context.Context
	tx  pgx.Tx
	*Report

	seed  maphash.Seed
	terms map[messageOf][]int64         // of messages that events were about lately; nil: it is not there
	ends  map[string]posthaste.Position // of the logs
	older map[string]bool               // users with events on an earlier day
}

func (c *checker) all() error {
	for _, check := range []func() error{c.nodes, c.messages, c.lanes, c.records, c.deadLetters, c.runs, c.waits, c.counts, c.log} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// each calls look for each row of a query.
func (c *checker) each(look func(pgx.CollectableRow) error, sql string, args ...any) error {
	found, err := c.tx.Query(c.ctx, sql, args...)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		c.Rows++
		if err := look(found); err != nil {
			return err
		}
	}
	return found.Err()
}

// scan reads the rows of a query one by one into variables and calls look after each.
func (c *checker) scan(into []any, look func(), sql string, args ...any) error {
	found, err := c.tx.Query(c.ctx, sql, args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(found, into, func() error {
		c.Rows++
		look()
		return nil
	})
	return err
}

// report adds a problem if there is an error.
func (c *checker) report(err error, format string, args ...any) {
	if err != nil {
		c.Add("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

// reportRows adds a problem for each row of a query; the format shows its columns.
func (c *checker) reportRows(format, sql string) error {
	return c.each(func(r pgx.CollectableRow) error {
		values, err := r.Values()
		if err == nil {
			c.Add(format, values...)
		}
		return err
	}, sql)
}

// records checks records and the times they are found by.
func (c *checker) records() error {
	var user string
	var kind int16
	var key, value []byte
	var due *int64
	return c.scan([]any{&user, &kind, &key, &value, &due}, func() {
		switch store.ItemKind(kind) {
		case store.ItemSecret:
			if err := store.CheckCopied(string(key), string(value)); err != nil {
				c.Add("%v", err)
			}
			return
		case store.ItemDeadLetter:
			c.DeadLetters++
		}
		c.report(checkRecord(store.ItemKind(kind), user, key, value, due), "record %q of kind %d of user %q", key, kind, user)
	}, `SELECT user_id, kind, key, value, due FROM posthaste.records`)
}

// checkRecord returns what is wrong with a record.
func checkRecord(kind store.ItemKind, user string, key, value []byte, due *int64) error {
	if want, fixed := keyLengths[kind]; fixed && len(key) != want {
		return fmt.Errorf("its key has %d bytes, not %d", len(key), want)
	}
	switch kind {
	case store.ItemQueue, store.ItemURLGroup, store.ItemFlowKey, store.ItemSchedule, store.ItemAction:
		return checkNamed(store.Item{Kind: kind, User: user, Key: key, Value: value}, due)
	case store.ItemRun:
		parts, err := record.Parts(value, 2)
		if err == nil {
			_, err = decodeRun(user, parts[0], parts[1])
		}
		return err
	case store.ItemRunEntry:
		_, err := record.DecodeRunEntry(int(binary.BigEndian.Uint32(key[8:])), value)
		return err
	case store.ItemRunEvent:
		_, err := record.Parts(value, 2)
		return err
	case store.ItemWaiter:
		_, err := record.DecodeWaiter(positionAt(key[8:]), value)
		return err
	case store.ItemDeadLetter:
		_, err := decodeDeadLetter(user, int64(positionAt(key)), value)
		return err
	case store.ItemRunDeadLetter:
		parts, err := record.Parts(value, 2)
		if err == nil {
			_, err = decodeDeadLetter(user, int64(positionAt(key)), parts[1])
		}
		return err
	case store.ItemIdempotencyRecord, store.ItemSubmission, store.ItemResponse:
		return nil
	}
	return errors.New("records of this kind are not known")
}

// checkNamed checks a record and the time it is found by.
func checkNamed(item store.Item, due *int64) error {
	found, err := index.Of(nil, &item)
	if err != nil {
		return err
	}
	return same("the time it is found by", due, milli(found.DueAt))
}

// same returns an error unless a nullable column has the record's value.
func same(what string, found, want *int64) error {
	if found == nil && want == nil || found != nil && want != nil && *found == *want {
		return nil
	}
	return fmt.Errorf("%s is %s, and should be %s", what, shown(found), shown(want))
}

func shown(n *int64) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}

// deadLetters checks records and terms.
func (c *checker) deadLetters() error {
	var user string
	var id int64
	var data []byte
	var terms []int64
	err := c.scan([]any{&user, &id, &data, &terms}, func() {
		c.DeadLetters++
		d, err := decodeDeadLetter(user, id, data)
		if err == nil {
			err = sameTerms(terms, index.DeadLetter(d))
		}
		c.report(err, "dead letter %s of user %q", posthaste.DeadLetterID(id), user)
	}, `
		SELECT user_id, id, record, ARRAY(
			SELECT term FROM posthaste.terms t WHERE t.user_id = d.user_id AND t.kind = 14 AND t.at = d.id)
		FROM posthaste.dead_letters d`)
	if err != nil {
		return err
	}
	return c.reportRows(`index of kind %[2]d of user %[1]q: it finds something at %[3]d, which is not there`, `
		SELECT DISTINCT user_id, kind, at FROM posthaste.terms t WHERE NOT CASE kind
			WHEN 14 THEN EXISTS (SELECT FROM posthaste.dead_letters d WHERE d.user_id = t.user_id AND d.id = t.at)
			WHEN 15 THEN EXISTS (SELECT FROM posthaste.run_dead_letters d WHERE d.user_id = t.user_id AND d.id = t.at)
			WHEN 7 THEN EXISTS (SELECT FROM posthaste.runs r WHERE r.user_id = t.user_id AND r.position = t.at)
			ELSE false END AND NOT EXISTS (SELECT FROM posthaste.records r WHERE r.user_id = t.user_id AND r.kind = t.kind AND r.key = int8send(t.at))`)
}

// sameTerms returns an error unless the index has the wanted terms.
func sameTerms(found []int64, want []store.Term) error {
	all := termColumns(want)
	slices.Sort(all)
	slices.Sort(found)
	if !slices.Equal(found, slices.Compact(all)) {
		return errors.New("its index does not agree with it")
	}
	return nil
}

// counts checks the counts of usage, and that no position can be given twice.
func (c *checker) counts() error {
	err := c.reportRows(`number of kind %[2]d of user %[1]q: it says %[3]d, and there are %[4]d`, `
		SELECT user_id, kind, coalesce(k.entries, 0), coalesce(n.entries, 0)
		FROM (SELECT * FROM posthaste.kept WHERE kind <> 13) AS k FULL JOIN (
			SELECT user_id, kind, count(*) AS entries FROM posthaste.records WHERE kind IN (7, 14, 15) GROUP BY user_id, kind
			UNION ALL SELECT user_id, 14::smallint AS kind, count(*) AS entries FROM posthaste.dead_letters GROUP BY user_id
			UNION ALL SELECT user_id, 15, count(*) FROM posthaste.run_dead_letters GROUP BY user_id
			UNION ALL SELECT user_id, 7, count(*) FROM posthaste.runs GROUP BY user_id) AS n USING (user_id, kind)
		WHERE coalesce(k.entries, 0) <> coalesce(n.entries, 0)`)
	if err != nil {
		return err
	}
	return c.reportRows(`log of user %q: it ends at %d, and positions from %d on would be given again`, `
		SELECT user_id, position, last_value + 1 FROM posthaste.users, posthaste.positions WHERE position > last_value`)
}
