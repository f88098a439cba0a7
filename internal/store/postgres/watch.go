package postgres

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
)

// Watch implements store.Watcher.
func (s *Store) Watch(ctx context.Context, user string) (posthaste.Position, <-chan struct{}, error) {
	who := s.followers.join(user) // first: what is written in between wakes
	end, err := read(ctx, s, func(ctx context.Context, q querier) (posthaste.Position, error) { return readEnd(ctx, q, user) })
	if err == nil {
		s.followers.setRead(user, who, end)
	}
	return end, who.grown, err
}

// readEnd returns the position of a user's last event, 0 if there was none yet.
func readEnd(ctx context.Context, q querier, user string) (posthaste.Position, error) {
	end, err := row(ctx, q, pgx.RowTo[int64], `SELECT position FROM posthaste.users WHERE user_id = $1`, user)
	return posthaste.Position(end), ignore(err, store.ErrNotFound)
}

// Wake implements store.Worker.
func (s *Store) Wake() <-chan struct{} { return s.wake }

// changed tells who waits in this process that something of users was committed here.
func (s *Store) changed(users ...string) {
	s.followers.wake(users...)
	s.signal()
}

// signal says that Claim should be called.
func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// listenEvery is how long it may take at most until a node hears of what others
// have committed.
const pollEvery = 50 * time.Millisecond

// listen tells who waits in this process that other nodes have committed something.
// It asks which transactions are in progress: the answer reads no table, needs no
// session, and is another one after anything was committed. That may have been anybody,
// in any database of the server, so then it asks what there is for those who wait.
func (s *Store) pollCommits() {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	var heard string
	var n pollResult
	for {
		select {
		case <-s.closing.Done():
			return
		case <-ticker.C:
		}
		snapshot, err := s.snapshot()
		if err != nil || snapshot == heard {
			continue
		}
		if next, err := s.poll(); err == nil {
			s.announce(n, next)
			heard, n = snapshot, next
		}
	}
}

// snapshot tells which transactions are in progress.
func (s *Store) snapshot() (string, error) {
	ctx, cancel := context.WithTimeout(s.closing, callTime)
	defer cancel()
	return row(ctx, s.control, pgx.RowTo[string], `SELECT pg_current_snapshot()::text`)
}

// news is what this node has to know of what others commit.
type pollResult struct {
	followed []string // users whose logs are followed here
	ends     []int64  // of those logs
	ready    *int64   // when the first lane is to be looked at
}

func (s *Store) poll() (pollResult, error) {
	ctx, cancel := context.WithTimeout(s.closing, callTime)
	defer cancel()
	return row(ctx, s.control, func(r pgx.CollectableRow) (n pollResult, err error) {
		err = r.Scan(&n.followed, &n.ends, &n.ready)
		return n, err
	}, `
		SELECT coalesce(array_agg(user_id), '{}'), coalesce(array_agg(position), '{}'),
			(SELECT min(ready) FROM posthaste.lanes)
		FROM posthaste.users WHERE user_id = ANY($1)`, s.followers.users())
}

// tell tells those whom news concern. A lane in which something has happened is to be
// looked at from the first of all times on; the others when their time has come, which a
// node knows unless it has changed.
func (s *Store) announce(before, now pollResult) {
	for i, user := range now.followed {
		s.followers.notify(user, posthaste.Position(now.ends[i]))
	}
	if now.ready != nil && (*now.ready == 0 || before.ready == nil || *now.ready != *before.ready) {
		s.signal()
	}
}

// followers are who waits in this process for the logs of users to grow.
type logWaiters struct {
	mu sync.Mutex
	of map[string]*logWaiter
}

// following is who waits for one log. It ends when they are woken.
type logWaiter struct {
	grown chan struct{}
	read  posthaste.Position // the least end of the log that one of them knows
	heard posthaste.Position // the end that was heard of last, while they waited
}

// join returns what is closed when the log of a user has grown. Whoever joins then reads
// the end of the log, and calls know.
func (f *logWaiters) join(user string) *logWaiter {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[string]*logWaiter{}
	}
	if f.of[user] == nil {
		f.of[user] = &logWaiter{grown: make(chan struct{}), read: math.MaxInt64}
	}
	return f.of[user]
}

// know notes which end of the log one of those who wait has read. It wakes them if what was
// heard since is beyond that.
func (f *logWaiters) setRead(user string, who *logWaiter, end posthaste.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	who.read = min(who.read, end)
	if who.heard > who.read && f.of[user] == who {
		f.wakeLocked(user)
	}
}

// hear wakes those for whom a log has grown, which ends at a position.
func (f *logWaiters) notify(user string, end posthaste.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	who := f.of[user]
	if who == nil {
		return
	}
	who.heard = max(who.heard, end)
	if who.heard > who.read {
		f.wakeLocked(user)
	}
}

// wake wakes who waits for the logs of some users.
func (f *logWaiters) wake(users ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, user := range users {
		f.wakeLocked(user)
	}
}

func (f *logWaiters) wakeAll() { f.wake(f.users()...) }

func (f *logWaiters) wakeLocked(user string) {
	if who := f.of[user]; who != nil {
		close(who.grown)
		delete(f.of, user)
	}
}

// users returns those for whose logs somebody waits.
func (f *logWaiters) users() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.AppendSeq([]string{}, maps.Keys(f.of)) // never NULL
}
