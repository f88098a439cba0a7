// Package node keeps a process one of the nodes of a database: by its session, on which its leases
// hang, by its clock, and by whether it reaches the database.
package node

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste/internal/store"
)

// A node loses its leases when it has been silent for Options.Lease; it sends three heartbeats in that
// time. Its row stays for GraveTime, to find leases that it took in a transaction longer than its life.
const (
	DefaultLease  = 10 * time.Second
	ShortestLease = 3 * time.Second
	GraveTime     = time.Hour
)

// ErrExpired says that this node counts as dead and must not claim.
var ErrExpired = errors.New("postgres: the session of this node has expired")

// Options of a node.
type Options struct {
	Control *pgxpool.Pool  // nobody else keeps its connections for long
	Part    store.PartAway // which of several databases it is; empty: the only one
	Lease   time.Duration
	Known   int // version of the schema that the program knows
	Logger  *slog.Logger
	Back    func()                    // the database answers again, and calls are about to go on
	Joined  func(node int64)          // see postgres.Options; may be nil
	Clock   func(ahead time.Duration) // may be nil
	Offset  func() time.Duration      // added to the node's clock, for tests; may be nil
	Any     bool                      // take part with any clock
}

// Node is this process as a node.
type Node struct {
	Options
	clock   clock
	outage  outage
	unheard int // heartbeats that failed in a row, but for outages
	session atomic.Pointer[Session]
}

// New returns a node that has not joined.
func New(options Options) *Node {
	return &Node{
		Options: options,
		clock:   clock{logger: options.Logger, onOffset: options.Clock, offset: options.Offset, any: options.Any},
		outage:  outage{part: options.Part, logger: options.Logger, back: options.Back},
	}
}

// AliveEvery is how often the node sends a heartbeat.
func (n *Node) AliveEvery() time.Duration { return n.Lease / 3 }

// Session is the present session, nil before the node has joined.
func (n *Node) Session() *Session { return n.session.Load() }

// Number is the node's number, 0 before it has one.
func (n *Node) Number() int64 {
	if t := n.Session(); t != nil {
		return t.Number
	}
	return 0
}

// Now returns the database's time.
func (n *Node) Now() time.Time { return n.clock.now() }

// Refuse returns why this node takes no call now: its clock is wrong, or it does not reach the
// database.
func (n *Node) Refuse() error {
	if err := n.clock.err(); err != nil {
		return err
	}
	return n.outage.refuse()
}

// Away reports whether the database could not be reached lately.
func (n *Node) Away() bool { return n.outage.on() }

// Lost notes that the database answers none of the control connections, or is a standby. Until a
// heartbeat succeeds, calls are refused at once.
func (n *Node) Lost(err error) {
	if IsUnavailable(err) && !errors.Is(err, store.ErrClock) {
		n.outage.begin(err)
	}
}

const reachTime = 5 * time.Second

// Reach asks the database whether it is there.
func (n *Node) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	_, err := n.Control.Exec(ctx, `SELECT`)
	return Unavailable(err)
}

// Join starts a session, unless there is one.
func (n *Node) Join(ctx context.Context) error {
	t := n.Session()
	if t != nil && t.Alive() {
		return nil
	}
	return n.join(ctx, t)
}

// Leave gives up all leases.
func (n *Node) Leave(ctx context.Context) error {
	if n.Session() == nil {
		return nil // it has not joined
	}
	n.Session().stop()
	ctx, cancel := context.WithTimeout(ctx, n.AliveEvery())
	defer cancel()
	_, err := n.Control.Exec(ctx, `UPDATE posthaste.nodes SET expires_at = clock_timestamp() WHERE node = $1`, n.Number())
	return err
}

// Renew sends a heartbeat. A node whose session expired joins again under a new number.
func (n *Node) Renew(ctx context.Context) (err error) {
	defer func() {
		if err == nil || errors.Is(err, store.ErrClock) { // it answers
			n.outage.end()
		}
	}()
	t := n.Session()
	if t.Alive() {
		sentAt := time.Now()
		var there time.Time
		err := n.Control.QueryRow(ctx, `
			UPDATE posthaste.nodes SET expires_at = clock_timestamp() + $2::interval
			WHERE node = $1 AND expires_at > clock_timestamp() RETURNING clock_timestamp()`, t.Number, n.Lease).Scan(&there)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if err == nil {
			if err := n.clock.compare(sentAt, there); err != nil {
				t.expire()
				return err
			}
			if t.renew(sentAt) {
				return nil
			}
		}
	}
	t.expire()
	return n.join(ctx, t)
}

// join starts a session under a new number, in place of the lost one, which may be nil. Of two
// concurrent calls, one number stays unused. A node whose clock is wrong does not join.
func (n *Node) join(ctx context.Context, lost *Session) error {
	sentAt := time.Now()
	var there time.Time
	if err := n.Control.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&there); err != nil {
		return err
	}
	if err := n.clock.compare(sentAt, there); err != nil {
		return err
	}
	sentAt = time.Now()
	var before, number int64
	if lost != nil {
		before = lost.Number
	}
	err := n.Control.QueryRow(ctx, `
		WITH lost AS (
			UPDATE posthaste.nodes SET expires_at = least(expires_at, clock_timestamp()) WHERE node = $3)
		INSERT INTO posthaste.nodes (node, expires_at, lease, known)
		VALUES (nextval('posthaste.tokens'), clock_timestamp() + $1::interval, $1::interval, $2)
		RETURNING node`, n.Lease, n.Known, before).Scan(&number)
	if err != nil {
		return err
	}
	t := newSession(number, sentAt, n.Lease, func() {
		n.Logger.Warn("node.silent", "consequence", "other nodes may claim its messages; its attempts were ended")
	})
	if !n.session.CompareAndSwap(lost, t) {
		t.stop()
		return nil
	}
	if n.Joined != nil {
		n.Joined(number)
	}
	n.Logger.Info("node.joined")
	return nil
}

// Beat sends a heartbeat, and tries again until the next one is due. Of failures in a row, the first
// is logged, and how many there were. A wrong clock and a database that is away are logged elsewhere.
func (n *Node) Beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, n.AliveEvery())
	defer cancel()
	for !n.Away() {
		err := n.Renew(ctx)
		if err == nil || errors.Is(err, store.ErrClock) {
			n.heard()
			return
		}
		if isReadOnly(err) {
			n.Lost(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(n.AliveEvery() / 5): // by then it is known whether the database is away
		}
		if !n.Away() {
			n.notHeard(err)
		}
	}
}

func (n *Node) notHeard(err error) {
	if n.unheard++; n.unheard == 1 {
		n.Logger.Warn("node.unheard", "error", err)
	}
}

func (n *Node) heard() {
	if n.unheard > 0 {
		n.Logger.Info("node.heard", "failed", n.unheard)
	}
	n.unheard = 0
}
