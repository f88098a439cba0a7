package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste/internal/admission"
	"posthaste/internal/store"
)

// A change of partitions in several databases is a transaction in each, which lock their rows in the order of
// the databases. All but one are prepared, then that one decides: its commit has the outcome of the change
// (table outcomes), and the others are committed. What is prepared stays locked until then, whatever happens to
// the node: the resolver of any node asks for the outcome, or makes it a rollback if there is none yet. So what a
// reader sees in one database, and what it waits for in another one, agree.

const (
	acrossLock     = 6 * time.Second // how long one waits for a row while it has locked others: longer than a resolver takes
	acrossIdle     = "12s"           // longer than a call, for it is idle in one database while it works in another one
	resolveEvery   = time.Second     // how soon what a dead node has prepared is noticed
	resolveTime    = 2 * time.Second // for an answer
	resolveAfter   = "3 seconds"     // before it is taken for left behind
	forgetEvery    = time.Minute     // outcomes that nobody will ask for
	outcomesAtOnce = 10_000          // that are forgotten
	outcomesKept   = "1 hour"        // at least
	preparedPrefix = "posthaste_"    // of the names of what is prepared: see branch.name
	allPrepared    = `SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, '` + preparedPrefix + `')`
)

// newChangeGate returns the gate of such changes in this node: each has a connection to several databases, while it
// waits for rows, too. Those of one user, whose rows may be locked for seconds, leave the others room.
func newChangeGate(connections int32) *admission.Gate {
	most := int64(max(2, connections/2))
	return admission.New(admission.Options{Capacity: most, Share: most / 2, Patience: callTime})
}

// branch is what a change does in one database.
type branch struct {
	store    *Store
	users    []string
	prefetch prefetch

	conn   *pgxpool.Conn
	tx     *userTx
	blocks []newBlock // of the log, that are written last
	name   string     // by which it is prepared: the number of its database, that of the one that decides, and the id
}

// across makes a change in several databases, of which one decides. do gets the transaction of each partition.
func (d *Databases) across(ctx context.Context, now time.Time, branches []*branch, decides *branch, do func(txOf func(partition string) *tx) error) (err error) {
	user := "" // of an import
	if len(branches[0].users) > 0 {
		user = store.UserOf(branches[0].users[0])
	}
	if err := d.gate.Enter(ctx, user, 1); err != nil {
		return fmt.Errorf("%w: too many changes of several databases wait: %w", store.ErrUnavailable, err)
	}
	defer d.gate.Leave(user, 1)
	for _, b := range branches {
		var done func(*error)
		if ctx, done, err = b.store.begin(ctx); err != nil {
			return err
		}
		defer func() { done(&err) }()
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	defer func() {
		for _, b := range branches {
			b.release()
		}
	}()
	txs := map[*Store]*tx{}
	for _, b := range branches {
		if err := b.begin(ctx, now); err != nil {
			return err
		}
		txs[b.store] = b.tx.at(now)
	}
	err = do(func(partition string) *tx { return txs[d.of(partition)] })
	for _, b := range branches {
		err = errors.Join(err, b.tx.failed)
	}
	if err != nil {
		return err
	}
	return d.commit(branches, decides)
}

// begin locks the users.
func (b *branch) begin(ctx context.Context, now time.Time) (err error) {
	if err := b.store.days.ensure(ctx, b.store.pool, now); err != nil {
		return err
	}
	if b.conn, err = b.store.pool.Acquire(ctx); err != nil {
		return err
	}
	b.users = slices.Compact(slices.Sorted(slices.Values(b.users)))
	b.tx = newUserTx(ctx, b.store, b.conn.Conn())
	b.tx.lockTimeout, b.tx.idleTimeout = acrossLock, acrossIdle
	return b.tx.begin(b.users, []*change{{now: now, prefetch: b.prefetch}})
}

// release ends the branch, if it was not committed.
func (b *branch) release() {
	if b.conn == nil {
		return
	}
	if b.conn.Conn().PgConn().TxStatus() != 'I' {
		_ = b.tx.rollback()
	}
	b.conn.Release() // ends the connection if the transaction goes on
}

// commit commits what has been written. What has only been locked stays so until then.
func (d *Databases) commit(branches []*branch, decides *branch) error {
	writing := slices.DeleteFunc(slices.Clone(branches), func(b *branch) bool { return b.tx.writes == 0 })
	switch {
	case len(writing) == 0:
		return nil
	case len(writing) == 1:
		return writing[0].tx.commit(writing[0].users)
	case decides.tx.writes == 0:
		decides = writing[0]
	}
	others := slices.DeleteFunc(writing, func(b *branch) bool { return b == decides })
	id := rand.Text()
	for i, b := range others {
		b.name = fmt.Sprintf("%s%d_%d_%s", preparedPrefix, b.store.placement.number, decides.store.placement.number, id)
		if err := b.prepare(); err != nil {
			for _, prepared := range others[:i] {
				_ = prepared.end(`ROLLBACK PREPARED`) // or the resolver does
			}
			return err
		}
	}
	batch, blocks := decides.tx.lastWrites()
	batch.Queue(`INSERT INTO posthaste.outcomes (id, committed) VALUES ($1, true)`, id)
	batch.Queue(`COMMIT`)
	err := decides.tx.sendLast(batch)
	var ended []*branch
	for _, b := range others {
		switch {
		case err != nil && !rejected(err): // the resolver will know
		case err != nil:
			_ = b.end(`ROLLBACK PREPARED`)
		case b.end(`COMMIT PREPARED`) == nil, !b.store.node.Away() && b.store.resolve(b.name) == nil: // on another connection
			ended = append(ended, b)
		}
	}
	for _, b := range ended {
		_ = b.tx.committed(b.users, b.blocks, nil)
	}
	err = decides.tx.committed(decides.users, blocks, err)
	if said, ok := errors.AsType[*pgconn.PgError](err); ok && said.Code == uniqueViolation && said.TableName == "outcomes" {
		err = fmt.Errorf("%w: it took too long: %w", store.ErrUnavailable, err)
	}
	return err
}

// uniqueViolation is the database's code if a resolver has made an outcome before.
const uniqueViolation = "23505"

// prepare writes what is left, and prepares the transaction. Any connection can then end it by its name.
func (b *branch) prepare() error {
	var batch *pgx.Batch
	batch, b.blocks = b.tx.lastWrites()
	err := b.tx.sendLast(batch)
	if err == nil {
		err = b.end(`PREPARE TRANSACTION`)
	}
	if err != nil {
		b.store.days.forgetAll(err)
	}
	return err
}

// end does something with the transaction by its name, which is no statement to be planned.
func (b *branch) end(how string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.tx.ctx), callTime)
	defer cancel()
	_, err := b.tx.conn.Exec(ctx, how+` '`+b.name+`'`, pgx.QueryExecModeSimpleProtocol)
	return err
}

// canPrepare returns an error if the database prepares no transactions.
func (s *Store) canPrepare(ctx context.Context) error {
	most, err := row(ctx, s.pool, pgx.RowTo[int], `SELECT current_setting('max_prepared_transactions')::integer`)
	if err == nil && most == 0 {
		err = errors.New("its max_prepared_transactions is 0: set it to 100, and restart it")
	}
	return err
}

// resolvePrepared ends what was prepared in this database by a node that has died, or did not get an answer.
func (s *Store) resolvePrepared() {
	if s.node.Away() {
		return
	}
	ctx, cancel := context.WithTimeout(s.closing, resolveTime)
	defer cancel()
	left, err := rows(ctx, s.pool, pgx.RowTo[string], allPrepared+` AND prepared < clock_timestamp() - $1::interval`, resolveAfter)
	if err != nil {
		return // the next time
	}
	for _, name := range left {
		if err := s.resolve(name); err != nil && s.closing.Err() == nil {
			s.logger.Debug("change.unresolved", "error", err)
		}
	}
}

func (s *Store) resolve(name string) error {
	var own, n int
	var id string
	_, err := fmt.Sscanf(strings.TrimPrefix(name, preparedPrefix), "%d_%d_%s", &own, &n, &id)
	if err != nil || n < 0 || n >= len(s.placement.of.all) {
		return fmt.Errorf("%s was prepared by others", name)
	}
	decides := s.placement.of.all[n]
	if err := decides.node.Refuse(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.closing, resolveTime)
	defer cancel()
	committed, err := row(ctx, decides.pool, pgx.RowTo[bool], `
		INSERT INTO posthaste.outcomes (id, committed) VALUES ($1, false)
		ON CONFLICT (id) DO UPDATE SET id = excluded.id RETURNING committed`, id)
	if err != nil {
		return err
	}
	how := `ROLLBACK PREPARED`
	if committed {
		how = `COMMIT PREPARED`
	}
	_, err = s.pool.Exec(ctx, how+` '`+name+`'`, pgx.QueryExecModeSimpleProtocol)
	if said, ok := errors.AsType[*pgconn.PgError](err); ok && said.Code == undefinedObject {
		return nil // somebody else has ended it
	}
	if err == nil {
		s.logger.Info("change.resolved", "committed", committed)
		s.grown.addAll()
		s.lookAgain()
	}
	return err
}

// undefinedObject is the database's code when nothing is prepared by a name.
const undefinedObject = "42704"

// forgetOutcomes deletes old outcomes, if all databases say what is still prepared.
func (d *Databases) forgetOutcomes() {
	ctx, cancel := context.WithTimeout(d.all[0].closing, callTime)
	defer cancel()
	prepared := []string{} // never NULL
	for _, s := range d.all {
		own, err := rows(ctx, s.pool, pgx.RowTo[string], allPrepared)
		if err != nil || s.node.Away() {
			return
		}
		for _, name := range own {
			prepared = append(prepared, name[strings.LastIndex(name, "_")+1:])
		}
	}
	for _, s := range d.all {
		_, _ = s.pool.Exec(ctx, `
			DELETE FROM posthaste.outcomes WHERE id IN (
				SELECT id FROM posthaste.outcomes WHERE decided < clock_timestamp() - $1::interval AND id <> ALL($2) LIMIT $3)`,
			outcomesKept, prepared, outcomesAtOnce) // or the next time
	}
}
