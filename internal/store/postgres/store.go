// Package postgres keeps everything in a PostgreSQL that any number of nodes share.
// No node leads, none keeps anything in memory that another would have to know, and
// nothing is kept in a session, so that a transaction pooler may lie between.
//
// Everything belongs to a user, and a user's changes are made one after another: a
// transaction begins by locking the row of its user, which holds the position of
// the last event. Positions therefore ascend in the order of commit on however many
// nodes, and all that a transaction reads stays as it is until it ends.
//
// A claim is a lease of a node. A node says every few seconds that it lives, by the
// clock of the database; what it had claimed is due again when it has not done so
// in time, and a settlement that comes later finds another lease.
package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste/internal/flow"
	"posthaste/internal/store"
)

// Options are the choices of whoever opens a store. The zero value has the defaults.
type Options struct {
	// Connections is how many this node may have open at once, 4 at least; 0:
	// DefaultConnections.
	Connections int32
	// Joined is told the number that this node has in the table of nodes: when it is
	// opened, and when it gets another one because it was taken for dead. nil: nobody.
	Joined func(node int64)
	// Clock is told every few seconds how far the clock of this node is ahead of that of
	// the database. nil: nobody. A node whose clock is too far away takes no part: Open, and
	// each call, fails with store.ErrClock until it is right again.
	Clock func(ahead time.Duration)
	// AnyClock lets this node take part whatever its clock says: for tests, whose time is
	// not that of the database.
	AnyClock bool
	Logger   *slog.Logger // nil: slog.Default()
	// Memory is how many bytes of large messages this node may have claimed; 0: any number.
	Memory int
	// Existing says that there must be a schema, and one of this version. Unless it is set
	// one is made, or brought up to date.
	Existing bool

	newer       migrator             // that the program knows beside its own
	clockOffset func() time.Duration // by how much the clock of this node is ahead; nil: it is as it is
	patience    time.Duration        // how long Claim waits for turns; 0: claimPatience
}

// DefaultConnections is how many connections a node opens at most unless told otherwise.
const DefaultConnections = 10

// Store implements store.Store. Open makes one.
type Store struct {
	pool        *pgxpool.Pool
	control     *pgxpool.Pool // for what keeps the node among the others, which waits for nobody
	schema      migrator
	existing    bool // the schema must be there
	node        node
	partitions  partitions
	changes     changeQueue
	inDoubt     inDoubtClaims
	held        heldClaims
	lateResults lateResults
	setAside    setAside
	releasing   backgroundTask // of claims that are unsure
	reaping     backgroundTask
	patience    time.Duration // how long Claim waits for turns that somebody else has
	joined      func(node int64)
	logger      *slog.Logger
	wake        chan struct{}
	followers   logWaiters

	closing context.Context // done when Close begins
	close   context.CancelFunc
	mu      sync.Mutex // guards the beginning of calls against that of Close
	calls   sync.WaitGroup
	loops   sync.WaitGroup
}

var _ store.Store = (*Store)(nil)

// Open connects to a database, brings its schema up to date and joins its nodes. It
// returns store.ErrUnavailable if the database cannot be asked at this moment.
func Open(ctx context.Context, url string, options Options) (*Store, error) {
	connections := cmp.Or(options.Connections, DefaultConnections)
	s := &Store{
		joined: options.Joined, logger: options.Logger, wake: make(chan struct{}, 1),
		schema: slices.Concat(migrations, options.newer), existing: options.Existing,
		patience: cmp.Or(options.patience, claimPatience),
	}
	s.held.memory = flow.NewMemory[laneID](options.Memory)
	if s.logger == nil {
		s.logger = slog.Default()
	}
	s.node.clock.logger, s.node.clock.onOffset, s.node.clock.offset = s.logger, options.Clock, options.clockOffset
	s.node.clock.any = options.AnyClock
	var err error
	if s.pool, err = newPool(ctx, url, max(1, connections-controlConnections)); err != nil {
		return nil, err
	}
	if s.control, err = newPool(ctx, url, controlConnections); err != nil {
		s.pool.Close()
		return nil, err
	}
	s.closing, s.close = context.WithCancel(context.Background())
	if err := s.join(ctx); err != nil {
		s.disconnect()
		return nil, unavailable(err)
	}
	if err := s.reapDeadNodes(ctx, time.Time{}); err != nil {
		s.logger.Warn("leases.kept", "error", err) // the first claim tries again
	}
	s.loops.Go(s.keepAlive)
	s.loops.Go(s.pollCommits)
	s.loops.Go(s.compareLeases)
	return s, nil
}

func (s *Store) join(ctx context.Context) error {
	if err := s.prepareSchema(ctx); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return s.joinCluster(ctx, nil)
}

// prepareSchema brings the schema up to date, or finds it so if it must be there.
func (s *Store) prepareSchema(ctx context.Context) error {
	if s.existing {
		return s.schema.check(ctx, s.pool)
	}
	return s.schema.up(ctx, s.pool)
}

// Close implements store.Store. What this node has claimed is due again for others
// as soon as they look.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closing.Err() != nil
	s.close()
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.calls.Wait()
	s.loops.Wait()
	err := s.node.leave(context.Background(), s.pool)
	s.disconnect()
	s.followers.wakeAll()
	return err
}

func (s *Store) disconnect() {
	s.pool.Close()
	s.control.Close()
}

// begin lets a call begin unless the store is closed, or this node takes no part. The context it returns ends
// when the store is closed; done must be called with what the call returns.
func (s *Store) begin(ctx context.Context) (_ context.Context, done func(*error), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Err() != nil {
		return nil, nil, store.ErrClosed
	}
	if err := s.node.clock.err(); err != nil {
		return nil, nil, err
	}
	s.calls.Add(1)
	callers := ctx
	ctx, cancel := context.WithCancel(callers)
	stop := context.AfterFunc(s.closing, cancel)
	return ctx, func(err *error) {
		stop()
		cancel()
		if *err != nil && s.closing.Err() != nil && !errors.Is(*err, errInDoubt) {
			*err = store.ErrClosed
		} else if callers.Err() == nil { // else it is the caller who did not wait
			*err = unavailable(*err)
		}
		s.calls.Done()
	}, nil
}

// querier is what reads: the pool, or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// read runs a call that changes nothing.
func read[T any](ctx context.Context, s *Store, f func(context.Context, querier) (T, error)) (value T, err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return value, err
	}
	defer done(&err)
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return f(ctx, s.pool)
}

// rows returns what a query finds, each row as scan reads it.
func rows[T any](ctx context.Context, q querier, scan func(pgx.CollectableRow) (T, error), sql string, args ...any) ([]T, error) {
	found, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, scan)
}

// row returns the one row a query finds, or store.ErrNotFound.
func row[T any](ctx context.Context, q querier, scan func(pgx.CollectableRow) (T, error), sql string, args ...any) (value T, err error) {
	found, err := q.Query(ctx, sql, args...)
	if err != nil {
		return value, err
	}
	value, err = pgx.CollectOneRow(found, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrNotFound
	}
	return value, err
}

// hashed is what a text of any length is found by. Hashes are those of the other backend,
// for of some texts nothing else is kept that could be copied.
func shortHash(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:16]
}

// milli is a time as it is stored, nil for none.
func milli(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}

// fromMilli is the time that milli stored.
func fromMilli(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms)
}

// except returns err unless it is the expected one.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
