package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/store"
	"posthaste/internal/store/postgres/schema"
)

// WithMigration are options of a program that knows one more migration, which a program
// must know unless it knows so many.
func (o Options) WithMigration(statements string, needs int) Options {
	o.newer = append(o.newer, schema.Migration{Statements: statements, Needs: needs})
	return o
}

// WithPatience are options of a store whose Claim waits that long for locked users.
func (o Options) WithPatience(d time.Duration) Options {
	o.patience = d
	return o
}

// WithClock are options of a node whose clock is ahead of what it says.
func (o Options) WithClock(ahead func() time.Duration) Options {
	o.clockOffset = ahead
	return o
}

// WithTracer are options of a store whose statements are traced, but for those that go beside:
// heartbeats, and the poll for commits.
func (o Options) WithTracer(tracer pgx.QueryTracer) Options {
	o.tracer = tracer
	return o
}

// OneChangePerCommit lets a transaction make one change only.
func (s *Store) OneChangePerCommit() { s.changes.workTime = 1 }

// Waiting returns the number of changes that wait for a user.
func (s *Store) Waiting(user string) int {
	s.changes.mu.Lock()
	defer s.changes.mu.Unlock()
	return len(s.changes.waiting[user])
}

// AnyClaiming reports whether claims go on whose results a later Claim returns.
func (s *Store) AnyClaiming() bool {
	busy, _ := s.late.busy()
	return len(busy) > 0
}

// AnyClaiming is the same for several databases.
func (d *Databases) AnyClaiming() bool {
	return d.late.any() || slices.ContainsFunc(d.all, (*Store).AnyClaiming)
}

// EventsBetween is Events with something that happens before each of its statements.
func (s *Store) EventsBetween(ctx context.Context, user string, query store.EventQuery, happens func()) (store.EventPage, error) {
	r := &logReader{ctx: ctx, q: disturbed{s.pool, happens}, store: s, user: user, query: query, budget: store.NewPageBudget(query.Bytes)}
	err := r.run()
	return r.page, err
}

// disturbed is a querier that does something else first.
type disturbed struct {
	querier
	happens func()
}

// Query implements querier.
func (d disturbed) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	d.happens()
	return d.querier.Query(ctx, sql, args...)
}

// CompareLeases compares once the leases of this node with what it holds.
func (s *Store) CompareLeases() { _ = s.releaseOrphans() }

// CompleteIndex brings the index up to date of logs to which this node has added.
func (s *Store) CompleteIndex(ctx context.Context) error { return s.indexGrown(ctx) }

// Settings are those of a transaction.
const Settings = txSettings

// Planned are statements that must not become slower with what they are not about.
var Planned = map[string]string{
	"users with ready lanes":  dueOfUsers,
	"the next lane":           nextOfShare,
	"messages of ready lanes": messagesInLanes,
	"places":                  livesByID,
	"endings":                 endingsByID,
	"messages":                messagesByID,
	"records":                 recordsByKey,
	"places that go":          deleteLives,
	"messages that go":        deleteMessages,
	"endings that go":         deleteEndings,
	"records that go":         deleteRecords,
	"terms that go":           deleteTerms,
	"users":                   lockUserRows,
	"lanes of a queue":        reopenLanes,
	"totals":                  writeTotals,
	"empty lanes":             deleteEmptyLanes,
	"lanes that a key blocks": wakeBlockedLanes,
}

// Grow has users divided into more partitions.
func (s *Store) Grow(ctx context.Context, partitions store.Partitions) error {
	return s.wantPartitions(ctx, partitions)
}

// DividingLate are options of a store that divides users only by DivideAll.
func (o Options) DividingLate() Options {
	o.divideLate = true
	return o
}

// DivideAll divides users now, if all nodes know of it.
func (s *Store) DivideAll() { s.divideAll() }

// Forget has this node take users to be undivided, as one that was frozen does.
func (s *Store) Forget() {
	s.divisions.replace(s.divisions.now.Load(), store.Division{Partitions: 1})
	s.divisions.users.Clear()
	s.divisions.learned.Store(-int64(time.Hour))
}

// Held is how many claims this node works on.
func (s *Store) Held() int { return len(s.held.leases()) }

// RenewShares has this node notice now which others take part.
func (d *Databases) RenewShares() {
	for _, s := range d.all {
		s.renewShare()
	}
}

// ForgetOutcomes deletes old outcomes now.
func (d *Databases) ForgetOutcomes() { d.forgetOutcomes() }

// Free is how many messages each database may claim as it accepts them.
func (d *Databases) Free() (free []int) {
	for _, s := range d.all {
		_, n := s.accepted.reserve(0)
		free = append(free, n)
	}
	return free
}

// RenewShare has this node notice now which others take part.
func (s *Store) RenewShare() { s.renewShare() }
