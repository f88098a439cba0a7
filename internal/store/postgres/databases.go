package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"posthaste"
	"posthaste/internal/admission"
	"posthaste/internal/store"
)

// Databases are several databases that divide the partitions of users. Each is a Store of its own, with its
// nodes, leases and jobs; a change of partitions in more than one is a transaction in each: see across. While
// one is away, so are its partitions, and no others.
type Databases struct {
	all        []*Store
	partitions store.Partitions
	together   string // see placement
	incomplete error  // which were away at first
	counts     *userCounts
	gate       *admission.Gate // of changes of several databases
	late       lateClaims[*Store]
	turn       atomic.Int64 // which one Claim asks first
	wake       chan struct{}
	loops      sync.WaitGroup
}

var _ store.Divisible = (*Databases)(nil)

// newPartitions is in how many partitions users of several new databases are divided by default.
const newPartitions = 16

// OpenDatabases is Open for one database or several, given in the same order each time. Their number, and that of the
// partitions of users, does not change while they are used. Those that are away are joined when they are back, but for
// the first one, and unless one is new.
func OpenDatabases(ctx context.Context, urls []string, options Options) (_ store.Divisible, err error) {
	if len(urls) == 1 {
		return Open(ctx, urls[0], options)
	}
	d := &Databases{
		all:    make([]*Store, len(urls)),
		counts: newUserCounts(),
		gate:   newChangeGate(cmp.Or(options.Connections, DefaultConnections)),
		wake:   make(chan struct{}, 1),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	options.Memory /= len(urls) // claims from one know nothing of those from the others
	for number, url := range urls {
		own := options
		own.placement, own.Logger = placement{number, d}, cmp.Or(options.Logger, slog.Default()).With("database", number+1)
		if number > 0 {
			own.Joined, own.Clock = nil, nil // the node is known by what it is in the first one
		}
		if d.all[number], err = connect(ctx, url, own); err != nil {
			return nil, fmt.Errorf("%s: %w", own.placement.name(), err)
		}
	}
	if err := d.startAll(ctx, options); err != nil {
		return nil, err
	}
	for _, s := range d.all {
		d.loops.Go(func() { d.forward(s) })
		s.loops.Go(func() { s.repeat(resolveEvery, s.resolvePrepared) })
		s.loops.Go(s.wakeForOthers)
	}
	d.loops.Go(func() { d.all[0].repeat(forgetEvery, d.forgetOutcomes) })
	return d, nil
}

// startAll starts those that are there, the first one at least, and has the others started later.
func (d *Databases) startAll(ctx context.Context, options Options) error {
	unreached := make([]error, len(d.all))
	var reaching sync.WaitGroup
	for i, s := range d.all {
		reaching.Go(func() { unreached[i] = s.node.Reach(ctx) })
	}
	reaching.Wait()
	d.incomplete = errors.Join(unreached...)
	for i, s := range d.all {
		err := unreached[i]
		if err == nil {
			err = d.start(ctx, s, options)
		}
		switch {
		case err == nil:
		case s.placement.number > 0 && errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrClock):
			s.node.Lost(err)
			s.loops.Go(func() { d.startLater(s, options) })
		default:
			return fmt.Errorf("%s: %w", s.placement.name(), err)
		}
	}
	return nil
}

// start joins the nodes of one of the databases, if it goes with the others.
func (d *Databases) start(ctx context.Context, s *Store, options Options) error {
	wanted := options.Partitions
	if err := s.join(ctx, cmp.Or(d.partitions, wanted, newPartitions)); err != nil {
		return err
	}
	if err := d.join(s, wanted); err != nil {
		return err
	}
	s.work(ctx, options)
	return nil
}

// startLater starts one that is away when it answers, and goes with the others. Until then it refuses calls.
func (d *Databases) startLater(s *Store, options Options) {
	for told := ""; ; {
		select {
		case <-s.closing.Done():
			return
		case <-time.After(resolveEvery):
		}
		err := d.start(s.closing, s, options)
		switch {
		case err == nil:
			_ = s.node.Renew(s.closing) // or a later heartbeat ends the outage
			return
		case errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrClock), s.closing.Err() != nil:
		case err.Error() != told:
			told = err.Error()
			s.logger.Error("database.refused", "error", err, "consequence", "it counts as away")
		}
	}
}

// join checks that users are divided in a database as in the others, and as is wanted.
func (d *Databases) join(s *Store, wanted store.Partitions) error {
	has := s.Division()
	if d.partitions == 0 {
		d.partitions = has.Partitions
	}
	switch {
	case len(has.Before) > 0:
		return errors.New("its users have been divided while it was used alone: copy it into new ones with posthaste copy")
	case has.Partitions != d.partitions:
		return fmt.Errorf("its users have %d partitions, and those of the others %d", has.Partitions, d.partitions)
	case wanted != 0 && wanted != has.Partitions:
		return fmt.Errorf("users have %d partitions, not %d: in several databases their number does not change", has.Partitions, wanted)
	}
	return nil
}

// forward has Claim called when it should be for one of the databases.
func (d *Databases) forward(s *Store) {
	for {
		select {
		case <-s.closing.Done():
			return
		case <-s.wake:
			d.signal()
		}
	}
}

func (d *Databases) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// of returns the store of the database that has a partition.
func (d *Databases) of(partition string) *Store { return d.all[databaseOf(partition, len(d.all))] }

// eachOf calls visit for each database that has some of what is given, each part with a partition.
func eachOf[T any](d *Databases, all []T, partition func(T) string, visit func(*Store, []T) error) (err error) {
	for _, s := range d.all {
		own := slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !s.placement.has(partition(one)) })
		if len(own) > 0 {
			err = errors.Join(err, visit(s, own))
		}
	}
	return err
}

func itself(partition string) string { return partition }

func partitionOfClaim(c store.Claim) string { return c.Message.User }

// Division implements store.Divisible.
func (d *Databases) Division() store.Division { return store.Division{Partitions: d.partitions} }

// Reading implements store.Divisible.
func (d *Databases) Reading(context.Context) (store.Division, func(*error), error) {
	return d.Division(), func(*error) {}, nil
}

// DivisionOf implements store.Divisible.
func (d *Databases) DivisionOf(context.Context, string, bool) (store.Division, error) {
	return d.Division(), nil
}

// Update implements store.Backend.
func (d *Databases) Update(ctx context.Context, now time.Time, scope store.Scope, change func(store.Tx) error) error {
	return d.of(scope.User).Update(ctx, now, scope, change)
}

// UpdateSeveral implements store.Divisible.
func (d *Databases) UpdateSeveral(ctx context.Context, now time.Time, scopes []store.Scope, change func([]store.Tx) error) error {
	if only := d.of(scopes[0].User); !slices.ContainsFunc(scopes, func(s store.Scope) bool { return d.of(s.User) != only }) {
		return only.UpdateSeveral(ctx, now, scopes, change)
	}
	var branches []*branch
	_ = eachOf(d, scopes, func(s store.Scope) string { return s.User }, func(s *Store, own []store.Scope) error {
		users, w := scopeUsers(own)
		branches = append(branches, &branch{store: s, users: users, prefetch: w})
		return nil
	})
	var ended []store.Claim
	err := d.across(ctx, now, branches, branches[0], func(txOf func(string) *tx) (err error) {
		ended, err = changeScopes(scopes, txOf, change)
		return err
	})
	if err == nil {
		_ = eachOf(d, ended, partitionOfClaim, func(s *Store, own []store.Claim) error {
			s.held.remove(own...)
			return nil
		})
	}
	return err
}

// View implements store.Backend.
func (d *Databases) View(ctx context.Context, scope store.Scope, read func(store.Reader) error) error {
	return d.of(scope.User).View(ctx, scope, read)
}

// Events implements store.Log.
func (d *Databases) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (posthaste.Position, bool, error) {
	return d.of(user).Events(ctx, user, query, visit)
}

// Counts implements store.Log.
func (d *Databases) Counts(ctx context.Context, user string, from, until time.Time, visit func(*store.Count)) error {
	return d.of(user).Counts(ctx, user, from, until, visit)
}

// Watch implements store.Backend.
func (d *Databases) Watch(ctx context.Context, user string) (posthaste.Position, <-chan struct{}, error) {
	return d.of(user).Watch(ctx, user)
}

// LiveMessages implements store.Backend.
func (d *Databases) LiveMessages(ctx context.Context, user string, query store.LiveQuery) ([]posthaste.MessageID, string, error) {
	return d.of(user).LiveMessages(ctx, user, query)
}

// DropDays implements store.Backend.
func (d *Databases) DropDays(ctx context.Context, user string, before time.Time) (int, error) {
	return d.of(user).DropDays(ctx, user, before)
}

// logs divides logs by their databases.
func (d *Databases) logs(users []string) (logs []logsIn) {
	_ = eachOf(d, users, itself, func(s *Store, own []string) error {
		logs = append(logs, logsIn{s, own})
		return nil
	})
	return logs
}

// WatchSeveral implements store.Divisible.
func (d *Databases) WatchSeveral(ctx context.Context, users []string) (posthaste.Position, []<-chan struct{}, error) {
	return watchLogs(ctx, d.logs(users))
}

// CloseLogs implements store.Divisible.
func (d *Databases) CloseLogs(ctx context.Context, users []string, upTo posthaste.Position) (posthaste.Position, error) {
	return closeLogs(ctx, d.logs(users), upTo)
}

// Due implements store.Backend. What is in a database that is away is due when it is back.
func (d *Databases) Due(ctx context.Context, kind store.ItemKind, now time.Time, limit int, except ...string) (due []store.Record, next time.Time, err error) {
	var found []dueRecord
	err = d.ofThoseThere(func(s *Store) error {
		own, err := s.findDueRecords(ctx, kind, now, limit, except)
		found = append(found, own...)
		return err
	})
	slices.SortStableFunc(found, func(a, b dueRecord) int { return a.at.Compare(b.at) })
	due, next = dueBy(found, now, limit)
	return due, next, err
}

// ofThoseThere calls a function for each database. That some are away is no error, unless all are.
func (d *Databases) ofThoseThere(call func(*Store) error) (err error) {
	var away []error
	for _, s := range d.all {
		if failed := call(s); errors.Is(failed, store.ErrUnavailable) {
			away = append(away, failed)
		} else {
			err = errors.Join(err, failed)
		}
	}
	if len(away) == len(d.all) {
		return errors.Join(away...)
	}
	return err
}

// Wake implements store.Backend.
func (d *Databases) Wake() <-chan struct{} { return d.wake }

// Release implements store.Backend.
func (d *Databases) Release(ctx context.Context, now time.Time, claims []store.Claim) error {
	return eachOf(d, claims, partitionOfClaim, func(s *Store, own []store.Claim) error {
		return s.Release(ctx, now, own)
	})
}

// TryLease implements store.Backend, in the first database that is not away: two nodes that disagree about
// that may both get a job.
func (d *Databases) TryLease(ctx context.Context, job string, held time.Duration) (ok bool, err error) {
	for _, s := range d.all {
		if ok, err = s.TryLease(ctx, job, held); !errors.Is(err, store.ErrUnavailable) {
			break
		}
	}
	return ok, err
}

// Usage implements store.Backend.
func (d *Databases) Usage(ctx context.Context, user string) (total store.Usage, err error) {
	if user != "" {
		return d.of(user).Usage(ctx, user)
	}
	for _, s := range d.all {
		own, err := s.Usage(ctx, "")
		if err != nil {
			return store.Usage{}, err
		}
		total.Add(own)
		total.Users = append(total.Users, own.Users...)
	}
	slices.Sort(total.Users)
	return total, nil
}

// Ping implements store.Backend: one database is enough to work with. See Room.
func (d *Databases) Ping(ctx context.Context) error {
	return d.ofThoseThere(func(s *Store) error { return s.Ping(ctx) })
}

// Room returns which databases are away.
func (d *Databases) Room() (err error) {
	for _, s := range d.all {
		if s.node.Away() {
			err = errors.Join(err, fmt.Errorf("%s is away: what belongs to its partitions waits, or is refused", s.placement.name()))
		}
	}
	return err
}

// Stats implements store.Backend, of the databases that are not away.
func (d *Databases) Stats(ctx context.Context, now time.Time) (total store.Stats, err error) {
	err = d.ofThoseThere(func(s *Store) error {
		own, err := s.Stats(ctx, now)
		if err == nil {
			total.Add(own)
		}
		return err
	})
	return total, err
}

// Close implements store.Backend.
func (d *Databases) Close() (err error) {
	for _, s := range d.all {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	d.loops.Wait()
	return err
}

// Drain gives up this node's shares.
func (d *Databases) Drain(ctx context.Context) (err error) {
	for _, s := range d.all {
		err = errors.Join(err, s.Drain(ctx))
	}
	return err
}

// Now returns the time of the first database.
func (d *Databases) Now() time.Time { return d.all[0].Now() }

// OwnSlot is a posthaste.OwnSlot of this node. What may lie anywhere is put into no database that is away.
func (d *Databases) OwnSlot(user string, slot posthaste.Slot) posthaste.Slot {
	there := func(shard int16) bool { return !d.all[int(shard)*len(d.all)/shards].node.Away() }
	own := func(shard int16) bool { return d.all[int(shard)*len(d.all)/shards].share.Load().has(shard) }
	slot = ownSlot(user, slot, d.partitions, func(shard int16) bool { return own(shard) && there(shard) })
	return ownSlot(user, slot, d.partitions, there)
}
