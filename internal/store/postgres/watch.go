package postgres

import (
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"posthaste"
)

// Watch implements store.Backend.
func (s *Store) Watch(ctx context.Context, user string) (posthaste.Position, <-chan struct{}, error) {
	end, grown, err := s.WatchSeveral(ctx, []string{user})
	if err != nil {
		return 0, nil, err
	}
	return end, grown[0], nil
}

// WatchSeveral implements store.Divisible.
func (s *Store) WatchSeveral(ctx context.Context, users []string) (end posthaste.Position, grown []<-chan struct{}, err error) {
	return watchLogs(ctx, []logsIn{{s, users}})
}

// logsIn are logs in one database.
type logsIn struct {
	*Store
	users []string
}

// watchLogs is WatchSeveral for logs in some databases.
func watchLogs(ctx context.Context, logs []logsIn) (end posthaste.Position, grown []<-chan struct{}, err error) {
	waiters := map[string]*logWaiter{}
	for _, in := range logs {
		for _, user := range in.users {
			waiters[user] = in.followers.wait(user)
			grown = append(grown, waiters[user].grown)
		}
	}
	end, err = closeLogs(ctx, logs, posthaste.MaxPosition)
	if err != nil {
		return 0, nil, err
	}
	for _, in := range logs {
		for _, user := range in.users {
			in.followers.setRead(user, waiters[user], end)
		}
	}
	return end, grown, nil
}

// logEnd is the position of a user's row.
type logEnd struct {
	user string
	at   posthaste.Position
}

// CloseLogs implements store.Divisible.
func (s *Store) CloseLogs(ctx context.Context, users []string, upTo posthaste.Position) (posthaste.Position, error) {
	return closeLogs(ctx, []logsIn{{s, users}}, upTo)
}

// closeLogs is CloseLogs for logs in some databases. The next positions of a user are above that of its row, so a quiet
// log is closed by raising that, which only readers do. A row that is locked will soon have a higher
// position: that is waited for, but not for long.
func closeLogs(ctx context.Context, logs []logsIn, upTo posthaste.Position) (posthaste.Position, error) {
	ends := make([][]logEnd, len(logs))
	var err error
	for i, in := range logs {
		if ends[i], err = in.readEnds(ctx, false); err != nil {
			return 0, err
		}
	}
	if slices.ContainsFunc(ends, func(of []logEnd) bool { return len(of) > 0 }) {
		for i, in := range logs {
			if len(ends[i]) == 0 {
				if ends[i], err = in.readEnds(ctx, true); err != nil {
					return 0, err
				}
			}
		}
	}
	end, last := posthaste.MaxPosition, posthaste.Position(0)
	for _, e := range slices.Concat(ends...) {
		end, last = min(end, e.at), max(last, e.at)
	}
	if last = min(last, upTo); last <= end {
		return last, nil
	}
	closed := last
	for i, in := range logs {
		own, err := read(ctx, in.Store, func(ctx context.Context, _ querier) (posthaste.Position, error) { return in.raise(ctx, ends[i], last) })
		if err != nil {
			return 0, err
		}
		closed = min(closed, own)
	}
	return closed, nil
}

// readEnds returns where the logs of users end that have a row. A user gets the rows of all its partitions in a
// database at once, above what it has; if another database has some, before they are closed without these.
func (in logsIn) readEnds(ctx context.Context, create bool) ([]logEnd, error) {
	return read(ctx, in.Store, func(ctx context.Context, q querier) ([]logEnd, error) {
		if create {
			if err := in.createUsers(ctx, in.pool, in.users); err != nil {
				return nil, err
			}
		}
		return rows(ctx, q, scanEnd, `SELECT user_id, position FROM posthaste.users WHERE user_id = ANY($1)`, in.users)
	})
}

func scanEnd(r pgx.CollectableRow) (e logEnd, err error) {
	var at int64
	err = r.Scan(&e.user, &at)
	e.at = posthaste.Position(at)
	return e, err
}

// closeWait is how long a reader waits for a transaction that may still add to what it is to show.
const closeWait = "1s"

// closeNoWait is how long it waits for others after that.
const closeNoWait = "1ms"

// raise raises the ends of logs, first of those that nobody writes to.
func (s *Store) raise(ctx context.Context, ends []logEnd, to posthaste.Position) (end posthaste.Position, err error) {
	behind := slices.DeleteFunc(ends, func(e logEnd) bool { return e.at >= to })
	if len(behind) == 0 {
		return to, nil
	}
	users := column(behind, func(e logEnd) string { return e.user })
	raised, err := rows(ctx, s.pool, pgx.RowTo[string], `
		WITH free AS MATERIALIZED (
			SELECT user_id FROM posthaste.users WHERE user_id = ANY($1) ORDER BY user_id FOR UPDATE SKIP LOCKED)
		UPDATE posthaste.users u SET position = greatest(position, $2) FROM free WHERE u.user_id = free.user_id RETURNING u.user_id`,
		users, int64(to))
	if err != nil {
		return 0, err
	}
	end = to
	wait := closeWait
	for _, e := range behind {
		if slices.Contains(raised, e.user) {
			continue
		}
		batch := &pgx.Batch{} // one transaction
		batch.Queue(`SELECT set_config('lock_timeout', $1, true)`, wait)
		batch.Queue(`UPDATE posthaste.users SET position = $2 WHERE user_id = $1 AND position < $2`, e.user, int64(to))
		err := s.pool.SendBatch(ctx, batch).Close()
		if said, ok := errors.AsType[*pgconn.PgError](err); ok && said.Code == lockNotAvailable {
			end, wait = min(end, e.at), closeNoWait
		} else if err != nil {
			return 0, err
		}
	}
	return end, nil
}

func (s *Store) Wake() <-chan struct{} { return s.wake }

// changed notifies those who wait in this process that a transaction of users was committed.
func (s *Store) changed(t *userTx, users []string) {
	s.followers.wake(users...)
	if t.ready {
		if t.latest.IsZero() {
			s.readyLanes.lookAtAll()
		}
		s.signal()
	} else if len(t.newClaims) > 0 {
		s.wakeClaim()
	}
}

// signal has Claim look for messages.
func (s *Store) signal() {
	s.accepted.look.Store(true)
	s.wakeClaim()
}

func (s *Store) wakeClaim() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// pollEvery is how soon a node notices the commits of others.
const pollEvery = 50 * time.Millisecond

// pollTime is after how long without an answer the database counts as away.
const pollTime = 5 * time.Second

// pollCommits notices what other nodes commit. It polls the snapshot of transactions in
// progress, which reads no table, needs no session, and differs after any commit on the
// server. Only then it reads what is of interest. It is also how a node notices that it does not reach
// the database.
func (s *Store) pollCommits() {
	var heard string
	var n pollResult
	s.repeat(pollEvery, func() {
		ctx, cancel := context.WithTimeout(s.closing, pollTime)
		defer cancel()
		if s.node.Away() {
			_ = s.node.Renew(ctx) // a heartbeat ends that
			return
		}
		var snapshot string
		err := io.EOF
		for tries := 0; err != nil && tries <= controlConnections; tries++ { // each may have been cut
			snapshot, err = row(ctx, s.control, pgx.RowTo[string], `SELECT pg_current_snapshot()::text`)
		}
		if err != nil && s.closing.Err() == nil {
			s.node.Lost(err)
		}
		if err == nil && snapshot != heard {
			if next, err := s.poll(ctx); err == nil {
				s.announce(n, next)
				heard, n = snapshot, next
			}
		}
	})
}

// pollResult is what this node needs to know of others' commits.
type pollResult struct {
	Followed []string // users whose logs are followed here
	Ends     []int64  // of those logs
	Ready    *int64   // when the first lane is to be looked at
}

func (s *Store) poll(ctx context.Context) (pollResult, error) {
	followed := s.followers.users()
	since := s.readyLanes.known()
	share := s.share.Load()
	if len(followed) == 0 { // as mostly
		return row(ctx, s.control, pgx.RowToStructByPos[pollResult], pollLanes, share.first, share.end, since)
	}
	return row(ctx, s.control, pgx.RowToStructByPos[pollResult], pollLogs, share.first, share.end, since, followed)
}

// The queries of a pollResult: without logs that are followed, and with them.
var (
	pollLanes = `SELECT '{}'::text[], '{}'::bigint[], (` + nextLane("$1", "$2", "$3", "'{}'") + `)`
	pollLogs  = `
		SELECT coalesce(array_agg(user_id), '{}'), coalesce(array_agg(coalesce((` + lastPosition + `), 0)), '{}'),
			(` + nextLane("$1", "$2", "$3", "'{}'") + `)
		FROM unnest($4::text[]) AS w (user_id)`
)

// announce notifies those concerned: if a lane is ready, and if the time has changed when one will be.
func (s *Store) announce(before, now pollResult) {
	for i, user := range now.Followed {
		s.followers.notify(user, posthaste.Position(now.Ends[i]))
	}
	if now.Ready != nil && (before.Ready == nil || *now.Ready != *before.Ready || *now.Ready <= s.Now().UnixMilli()) {
		s.signal()
	}
}

// logWaiters wait in this process for users' logs to grow.
type logWaiters struct {
	mu sync.Mutex
	of map[string]*logWaiter
}

// logWaiter is everybody who waits for one log, until it grows.
type logWaiter struct {
	grown chan struct{}
	read  posthaste.Position // the least end of the log that one of them knows
	heard posthaste.Position // the end that was heard of last, while they waited
}

// wait returns the waiter of a log. The caller then reads the end of the log, and calls
// setRead.
func (f *logWaiters) wait(user string) *logWaiter {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of[user] == nil {
		f.of[user] = &logWaiter{grown: make(chan struct{}), read: math.MaxInt64}
	}
	return f.of[user]
}

// setRead notes the end that a caller has read, and wakes all if the log is known to be
// longer.
func (f *logWaiters) setRead(user string, who *logWaiter, end posthaste.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	who.read = min(who.read, end)
	if who.heard > who.read && f.of[user] == who {
		f.wakeLocked(user)
	}
}

// notify wakes those who have not read up to the end of a log.
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

func (f *logWaiters) users() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.AppendSeq([]string{}, maps.Keys(f.of)) // never NULL
}
