package postgres

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/postgres/schema"
)

// A message adds twenty postings to the index of the log, in three commits. Written by each commit
// they are most of what it writes. So a commit keeps them beside its events, as a few bytes, and
// they are written later, for all commits of some seconds at once: most go into the same few rows.
// Before anybody reads the index it is brought up to date, so nobody sees that it lags.

// indexEvery is how often a node writes the index of the logs to which it has added.
const indexEvery = 2 * time.Second

// What one transaction adds to the index.
const (
	usersIndexed   = 100
	commitsIndexed = 1000
)

// grownLogs are the users to whose logs this node has added since their index was written.
type grownLogs struct {
	mu  sync.Mutex
	all bool // anybody's may have grown, of nodes that died
	of  map[string]bool

	indexing sync.Mutex // held while their index is written
}

func (g *grownLogs) add(users ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, user := range users {
		g.of[user] = true
	}
}

func (g *grownLogs) addAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = true
}

// take returns the users, and clears them.
func (g *grownLogs) take() (users []string, all bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	users, all = slices.Sorted(maps.Keys(g.of)), g.all
	g.of, g.all = map[string]bool{}, false
	return users, all
}

// keepIndex brings it up to date. Errors are left to the next time.
func (s *Store) keepIndex() {
	if s.node.Away() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.closing), indexEvery)
	defer cancel()
	_ = s.indexGrown(ctx)
}

// indexGrown brings the index of the logs to which this node has added up to date. One call does that at a time.
func (s *Store) indexGrown(ctx context.Context) error {
	s.grown.indexing.Lock()
	defer s.grown.indexing.Unlock()
	users, all := s.grown.take()
	if all {
		var err error
		users, err = rows(ctx, s.pool, pgx.RowTo[string], `
			SELECT user_id FROM posthaste.indexed w WHERE `+leftForIndex+` ORDER BY user_id`)
		if err != nil {
			s.grown.addAll()
			return err
		}
	}
	err := s.indexLogs(ctx, users)
	if err != nil {
		s.grown.add(users...)
	}
	return err
}

// indexLogs brings the index of users' logs up to date, with all that is committed before.
func (s *Store) indexLogs(ctx context.Context, users []string) error {
	for some := range slices.Chunk(users, usersIndexed) {
		for more := true; more; {
			err := pgx.BeginTxFunc(ctx, s.pool, schema.Committed, func(tx pgx.Tx) (err error) {
				more, err = indexLogs(ctx, tx, &s.series, some)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// indexLogs adds to the index what commits have left beside their events, within a transaction. It
// reports whether there is more. Whatever is committed later for a user has higher positions.
func indexLogs(ctx context.Context, q batcher, series *knownSeries, users []string) (more bool, err error) {
	if err := lockIndexed(ctx, q, users); err != nil {
		return false, err
	}
	found, err := rows(ctx, q, scanLeft, leftEntries, users, commitsIndexed)
	if err != nil || len(found) == 0 {
		return false, err
	}
	var add index.LogWriter
	usage, reached := map[usageKey]usageChange{}, map[string]int64{}
	for _, e := range found {
		if err := add.AddEntries(e.user, e.first, e.entries); err != nil {
			return false, err
		}
		of := usageKey{e.user, usageLog, dayOf(e.first)}
		k := usage[of]
		usage[of], reached[e.user] = usageChange{k.entries + e.number, k.bytes + e.bytes}, int64(e.first)
	}
	batch := &pgx.Batch{}
	writePostings(batch, add.Postings)
	series.write(batch, add.Counts)
	for of, k := range usage {
		writeUsage(batch, of, k)
	}
	who := slices.Sorted(maps.Keys(reached))
	batch.Queue(setIndexed, who, column(who, func(user string) int64 { return reached[user] }))
	return len(found) == commitsIndexed, q.SendBatch(ctx, batch).Close()
}

// lockIndexed lets nobody else write the index of users' logs until the transaction ends.
func lockIndexed(ctx context.Context, q querier, users []string) error {
	_, err := rows(ctx, q, pgx.RowTo[string], `
		SELECT user_id FROM posthaste.indexed WHERE user_id = ANY($1) ORDER BY user_id FOR UPDATE`, users)
	return err
}

const setIndexed = `
	INSERT INTO posthaste.indexed (user_id, first) SELECT * FROM unnest($1::text[], $2::bigint[])
	ON CONFLICT (user_id) DO UPDATE SET first = greatest(indexed.first, excluded.first)`

// leftEntries are what is left to be added, oldest first for each user.
const leftEntries = `
	SELECT i.user_id, e.first, e.entries, coalesce(e.number, 0), coalesce(e.bytes, 0)
	FROM posthaste.indexed i, LATERAL (
		SELECT * FROM posthaste.events
		WHERE user_id = i.user_id AND first > i.first AND entries IS NOT NULL ORDER BY first LIMIT $2) AS e
	WHERE i.user_id = ANY($1) LIMIT $2`

// leftOfCommit is what a commit has left for the index, beside a block.
type leftOfCommit struct {
	user          string
	first         posthaste.Position
	entries       []byte
	number, bytes int
}

func scanLeft(r pgx.CollectableRow) (e leftOfCommit, err error) {
	var first int64
	err = r.Scan(&e.user, &first, &e.entries, &e.number, &e.bytes)
	e.first = posthaste.Position(first)
	return e, err
}

// indexedLog is how far the index of a log goes.
type indexedLog struct {
	First int64 // of the last block whose events are in the index
	Left  bool  // there are later ones
	End   int64 // of the log
}

// leftForIndex is whether there is something to be added to the index of a user w.
const leftForIndex = `EXISTS (SELECT FROM posthaste.events e WHERE e.user_id = w.user_id AND e.first > w.first AND e.entries IS NOT NULL)`

// completeIndex brings the index of a user's log up to date, unless it is.
func (s *Store) completeIndex(ctx context.Context, user string) error {
	at, err := readIndexed(ctx, s.pool, user)
	if err != nil || !at.Left {
		return err
	}
	return s.indexLogs(ctx, []string{user})
}

// readIndexed returns how far the index of a user's log goes.
func readIndexed(ctx context.Context, q querier, user string) (indexedLog, error) {
	at, err := row(ctx, q, pgx.RowToStructByPos[indexedLog], `
		SELECT w.first, `+leftForIndex+`, (`+lastPosition+`) FROM posthaste.indexed w WHERE user_id = $1`, user)
	return at, ignore(err, store.ErrNotFound)
}
