// Package postgres stores everything in a PostgreSQL database that any number of nodes share.
// There is no leader, no node caches what another changes, and no state is kept in a database
// session, so that a transaction pooler may lie between.
//
// A user's changes are serial: each transaction first locks the user's row, which holds the
// position of the last event. Positions therefore ascend in commit order across nodes, and
// what a transaction reads stays valid until it ends.
//
// A claim is a lease of a node. Nodes send heartbeats every few seconds, timed by the
// database's clock. The claims of a node that missed them are due again, and a late settlement
// finds another lease.
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
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste/internal/store"
	"posthaste/internal/store/postgres/node"
	"posthaste/internal/store/postgres/schema"
)

// Options of a store. The zero value has the defaults.
type Options struct {
	// Connections is the maximum number of open connections, at least 4; 0:
	// DefaultConnections.
	Connections int32
	// Joined is called with this node's number when it joins, and again when it rejoins
	// because it was taken for dead. May be nil.
	Joined func(node int64)
	// Clock is called every few seconds with the offset of this node's clock from the
	// database's. May be nil. A node whose clock is too far away does not take part: Open and
	// each call fail with store.ErrClock.
	Clock func(ahead time.Duration)
	// AnyClock lets this node take part whatever its clock says, for tests in virtual time.
	AnyClock bool
	Logger   *slog.Logger // nil: slog.Default()
	// Memory is how many bytes of large messages this node may have claimed; 0: no limit.
	Memory int
	// Lease is how long this node keeps its claims while nothing is heard of it: node.ShortestLease at
	// least; 0: node.DefaultLease.
	Lease time.Duration
	// Partitions is in how many parts each user is to be divided at least, which package partition does.
	// If they have fewer, they are divided again while nodes use the database. 0: as they are, or 1 in a
	// new database.
	Partitions store.Partitions
	// ClaimAccepted lets a commit claim the messages that it accepts, as far as the last Claim has left
	// slots free: see claimAccepted.
	ClaimAccepted bool
	// Existing requires a schema of this version. By default it is created or migrated.
	Existing bool

	newer       schema.Migrator      // migrations that the program knows beside its own
	clockOffset func() time.Duration // added to this node's clock, for tests
	patience    time.Duration        // in place of claimPatience, for tests
	divideLate  bool                 // only if a test asks for it
	placement   placement            // of one of several databases
	tracer      pgx.QueryTracer      // of statements, for tests
}

const DefaultConnections = 10

// Store implements store.Store, where its methods are described.
type Store struct {
	pool       *pgxpool.Pool
	control    *pgxpool.Pool // for heartbeats and polling
	migrations schema.Migrator
	existing   bool // the schema must be there
	node       *node.Node
	placement  placement
	days       logDays
	divisions  divisions
	share      atomic.Pointer[share]
	drains     atomic.Bool // see Drain
	series     knownSeries
	grown      grownLogs
	changes    changeQueue
	held       heldClaims
	late       lateClaims[string] // from users
	accepted   acceptedClaims
	freedKeys  freedKeys
	setAside   setAside
	readyLanes readyLanes
	releasing  backgroundTask // of claims in doubt
	reaping    backgroundTask
	patience   time.Duration
	logger     *slog.Logger
	wake       chan struct{}
	followers  logWaiters

	closing context.Context // done when Close starts
	close   context.CancelFunc
	mu      sync.Mutex // orders the start of calls and of Close
	calls   sync.WaitGroup
	loops   sync.WaitGroup
}

var _ store.Backend = (*Store)(nil)

// Open connects to a database, migrates its schema and joins its nodes. It returns
// store.ErrUnavailable if the database cannot be reached.
func Open(ctx context.Context, url string, options Options) (*Store, error) {
	s, err := connect(ctx, url, options)
	if err != nil {
		return nil, err
	}
	if err := s.join(ctx, options.Partitions); err != nil {
		s.disconnect()
		return nil, err
	}
	s.work(ctx, options)
	return s, nil
}

// connect returns a store that is to join. It asks the database nothing.
func connect(ctx context.Context, url string, options Options) (*Store, error) {
	connections := cmp.Or(options.Connections, DefaultConnections)
	s := &Store{
		logger: options.Logger, wake: make(chan struct{}, 1),
		migrations: slices.Concat(schema.Migrations, options.newer), existing: options.Existing,
		patience: cmp.Or(options.patience, claimPatience),
		held:     newHeldClaims(options.Memory, options.placement.counts()), placement: options.placement, changes: changeQueue{waiting: map[string][]*change{}},
		days: logDays{made: map[time.Time]bool{}}, series: knownSeries{hours: map[string]*hourOfUser{}}, grown: grownLogs{all: true, of: map[string]bool{}}, setAside: setAside{messages: map[messageOf]bool{}, records: map[string]bool{}},
		followers: logWaiters{of: map[string]*logWaiter{}}, freedKeys: freedKeys{keys: map[name]bool{}, some: make(chan struct{}, 1)},
	}
	s.accepted.enabled = options.ClaimAccepted
	if s.logger == nil {
		s.logger = slog.Default()
	}
	var err error
	if s.pool, err = newPool(ctx, url, max(1, connections-controlConnections), options.tracer); err != nil {
		return nil, err
	}
	if s.control, err = newPool(ctx, url, controlConnections, nil); err != nil {
		s.pool.Close()
		return nil, err
	}
	s.node = node.New(node.Options{
		Control: s.control, Part: s.placement.part(), Lease: cmp.Or(options.Lease, node.DefaultLease), Back: s.pool.Reset, Known: len(s.migrations), Logger: s.logger, Joined: options.Joined,
		Clock: options.Clock, Offset: options.clockOffset, Any: options.AnyClock,
	})
	s.closing, s.close = context.WithCancel(context.Background())
	s.share.Store(new(s.placement.shareOf(0, 1)))
	s.divisions.opened = time.Now()
	s.divisions.replace(nil, store.Division{Partitions: 1})
	return s, nil
}

// work starts what this node does all the time.
func (s *Store) work(ctx context.Context, options Options) {
	if err := s.reapDeadNodes(ctx, time.Time{}); err != nil {
		s.logger.Warn("leases.kept", "error", err) // the first claim retries
	}
	s.loops.Go(func() { s.repeat(s.node.AliveEvery(), s.beat) })
	s.loops.Go(s.pollCommits)
	s.renewShare()
	s.loops.Go(func() { s.repeat(shareEvery, s.renewShare) })
	if !options.divideLate && !s.placement.several() {
		s.loops.Go(func() { s.repeat(divideEvery, s.divideAll) })
	}
	s.loops.Go(func() { s.repeat(indexEvery, s.keepIndex) })
	s.loops.Go(s.compareLeases)
}

// join joins the nodes of the database. After an error it may be tried again.
func (s *Store) join(ctx context.Context, partitions store.Partitions) (err error) {
	defer func() { err = node.Unavailable(err) }()
	if err := s.prepareSchema(ctx); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	if err := s.takePlace(ctx); err != nil {
		return err
	}
	if err := s.node.Join(ctx); err != nil { // from now on nobody is divided before this node knows how
		return err
	}
	return s.wantPartitions(ctx, partitions)
}

func (s *Store) prepareSchema(ctx context.Context) error {
	if s.existing {
		return s.migrations.Check(ctx, s.pool)
	}
	return s.migrations.Up(ctx, s.pool)
}

// Close implements store.Store. Other nodes see this node's messages as due at once.
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
	if s.node.Session() != nil { // it may be a database of somebody else
		s.keepIndex()
	}
	err := s.node.Leave(context.Background())
	s.disconnect()
	s.followers.wakeAll()
	return node.Unavailable(err)
}

func (s *Store) disconnect() {
	s.pool.Close()
	s.control.Close()
}

// Now returns the database's time.
func (s *Store) Now() time.Time { return s.node.Now() }

// repeat does work at an interval until the store is closed.
func (s *Store) repeat(interval time.Duration, work func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.closing.Done():
			return
		case <-ticker.C:
			work()
		}
	}
}

// begin starts a call, unless the store is closed or this node does not take part. The
// returned context ends when the store is closed; done must be called with the call's error.
func (s *Store) begin(ctx context.Context) (_ context.Context, done func(*error), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Err() != nil {
		return nil, nil, store.ErrClosed
	}
	if err := s.node.Refuse(); err != nil {
		return nil, nil, err
	}
	s.calls.Add(1)
	callers := ctx
	ctx, cancel := context.WithCancel(callers)
	stop := context.AfterFunc(s.closing, cancel)
	return ctx, func(err *error) {
		stop()
		cancel()
		if *err != nil && s.closing.Err() != nil && !errors.Is(*err, node.ErrInDoubt) {
			*err = store.ErrClosed
		} else if callers.Err() == nil { // else the caller gave up
			*err = node.Unavailable(*err)
		}
		s.calls.Done()
	}, nil
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// read runs a call outside of a transaction.
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

// rows returns the rows of a query.
func rows[T any](ctx context.Context, q querier, scan func(pgx.CollectableRow) (T, error), sql string, args ...any) ([]T, error) {
	found, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, scan)
}

// row returns the one row of a query, or store.ErrNotFound.
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

// shortHash is the key of a text of any length.
func shortHash(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:16]
}

// milli is the stored form of a time, nil for the zero time.
func milli(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}

// fromMilli is the inverse of milli.
func fromMilli(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms)
}

// ignore returns err unless it is the expected one.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
