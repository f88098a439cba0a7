package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres/schema"
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
//
// Several databases have several snapshots, so no node may use them.
func Check(ctx context.Context, urls ...string) (report Report, err error) {
	report.Problems = []string{} // not null in JSON
	txs := make([]pgx.Tx, len(urls))
	var check func(n int) error
	check = func(n int) error {
		if n < len(urls) {
			return beginCheck(ctx, urls[n], func(tx pgx.Tx) error {
				txs[n] = tx
				if err := checkPlace(ctx, tx, n, len(urls)); err != nil {
					return err
				}
				return check(n + 1)
			})
		}
		for number := range txs {
			if err := newChecker(ctx, txs, number, &report).all(); err != nil {
				return err
			}
		}
		return nil
	}
	err = check(0)
	return report, err
}

// beginCheck calls check with a snapshot of a database.
func beginCheck(ctx context.Context, url string, check func(pgx.Tx) error) error {
	pool, err := dial(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := schema.Migrations.Check(ctx, pool); err != nil {
		return err
	}
	asOfNow := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, pool, asOfNow, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, checkSettings); err != nil {
			return err
		}
		return check(tx)
	})
}

// checkPlace returns an error unless a database is the one of that number, and may be checked with the others.
func checkPlace(ctx context.Context, tx pgx.Tx, number, databases int) error {
	found, err := rows(ctx, tx, pgx.RowToStructByPos[place], readPlace)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		found = []place{{Databases: 1}}
	}
	switch own := found[0]; {
	case own.Databases != databases || own.Number != number:
		return fmt.Errorf("it is database %d of %d: give all of them, in their order", own.Number+1, own.Databases)
	case databases == 1:
		return nil
	}
	used, err := row(ctx, tx, pgx.RowTo[bool], `SELECT EXISTS (SELECT FROM posthaste.nodes WHERE expires_at > clock_timestamp())`)
	if err == nil && used {
		err = errNotAlone
	}
	return err
}

func newChecker(ctx context.Context, txs []pgx.Tx, number int, report *Report) *checker {
	return &checker{
		ctx: ctx, tx: txs[number], txs: txs, number: number, Report: report,
		seed: maphash.MakeSeed(), indexed: map[indexOf]int{}, unreadable: map[indexOf]bool{},
	}
}

// txOf returns the snapshot of the database that has a partition.
func (c *checker) txOf(partition string) pgx.Tx { return c.txs[databaseOf(partition, len(c.txs))] }

// checkSettings keep retention from dropping a day's partitions until the check ends. The first
// query takes the snapshot. Tables are joined as a whole: if statistics take a full one for empty, a nested
// loop would compare each row with each.
const checkSettings = `
	SET LOCAL statement_timeout = 0; SET LOCAL jit = off; SET LOCAL enable_nestloop = off;
	LOCK TABLE posthaste.events, posthaste.postings, posthaste.responses IN ACCESS SHARE MODE`

type checker struct {
	ctx    context.Context
	tx     pgx.Tx
	txs    []pgx.Tx // of all databases
	number int      // of this one
	*Report
	division store.Division              // of users, but for
	divided  map[string]store.Partitions // those that are yet to be divided again

	seed  maphash.Seed
	known map[messageOf]*knownMessage   // that events were about lately; nil: it is not there
	ends  map[string]posthaste.Position // of the logs
	older map[string]bool               // users with events on an earlier day

	indexed    map[indexOf]int  // terms that records have
	unreadable map[indexOf]bool // some records are
}

func (c *checker) all() (err error) {
	c.division, err = readDivision(c.ctx, c.tx)
	if errors.Is(err, store.ErrNotFound) {
		c.Add("nothing says in how many partitions users are divided")
	} else if err != nil {
		return err
	}
	for _, check := range []func() error{c.prepared, c.divisions, c.nodes, c.messages, c.lanes, c.records, c.strayTerms, c.counts, c.log} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// prepared checks that no change of several databases is left half-done.
func (c *checker) prepared() error {
	return c.reportRows(`%[1]s: a change in several databases is prepared and has not ended: start a server, which ends it`, allPrepared)
}

// divisions finds out how users are divided.
func (c *checker) divisions() error {
	c.divided = map[string]store.Partitions{}
	var user string
	var partitions store.Partitions
	return c.scan([]any{&user, &partitions}, func() {
		if user = store.UserOf(user); c.divided[user] == 0 || partitions < c.divided[user] {
			c.divided[user] = partitions
		}
	}, `SELECT user_id, partitions FROM posthaste.users`)
}

// divisionOf is how the user of a partition is divided.
func (c *checker) divisionOf(partition string) store.Partitions {
	if divided, known := c.divided[store.UserOf(partition)]; known {
		return divided
	}
	return c.division.Partitions
}

// inPlace returns an error unless a partition is the one that has a slot.
func (c *checker) inPlace(partition string, slot posthaste.Slot) error {
	if home := c.divisionOf(partition).Of(store.UserOf(partition), slot); home != partition {
		return fmt.Errorf("it is not in its partition, %q", home)
	}
	if home := databaseOf(partition, len(c.txs)); home != c.number {
		return fmt.Errorf("it is not in its database, which is the one with number %d", home+1)
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

// counts checks the counts of usage.
func (c *checker) counts() error {
	return c.reportRows(`number of kind %[2]d of user %[1]q: it says %[3]d, and there are %[4]d`, `
		SELECT user_id, kind, coalesce(k.entries, 0), coalesce(n.entries, 0)
		FROM (SELECT * FROM posthaste.kept WHERE kind <> 13) AS k FULL JOIN (
			SELECT user_id, kind, count(*) AS entries FROM posthaste.records WHERE kind IN (7, 14, 15) GROUP BY user_id, kind) AS n USING (user_id, kind)
		WHERE coalesce(k.entries, 0) <> coalesce(n.entries, 0)`)
}
