package postgres

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

func (s *Store) DropDays(ctx context.Context, user string, before time.Time) (days int, err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer done(&err)
	return s.trimLog(ctx, user, before.UTC().Truncate(day))
}

// What one commit removes at most.
const (
	blocksAtOnce   = 50
	postingsAtOnce = 10_000
	lanesAtOnce    = 10_000
)

// trimLog removes a user's events before a day, and the messages without any event left,
// except those that have not ended and the first of an active run. It returns the number of
// days.
func (s *Store) trimLog(ctx context.Context, user string, before time.Time) (int, error) {
	if err := s.completeIndex(ctx, user); err != nil {
		return 0, err
	}
	days, err := rows(ctx, s.pool, pgx.RowTo[int64], `
		SELECT day FROM posthaste.kept WHERE user_id = $1 AND kind = $2 AND day < $3 ORDER BY day`,
		user, usageLog, before.UnixMilli())
	if err != nil {
		return 0, err
	}
	for _, day := range days {
		if err := s.trimDay(ctx, user, time.UnixMilli(day)); err != nil {
			return 0, err
		}
	}
	return len(days), errors.Join(s.dropDays(ctx, before), s.trimLanes(ctx, user))
}

// trimLanes removes lanes without a message, of a partition that the user has.
func (s *Store) trimLanes(ctx context.Context, user string) error {
	for gone := int64(lanesAtOnce); gone == lanesAtOnce; {
		err := s.change(ctx, time.Time{}, []string{user}, prefetch{}, func(tx *tx) error {
			tx.writes++
			removed, err := tx.conn.Exec(tx.ctx, deleteEmptyLanes, user, lanesAtOnce)
			gone = removed.RowsAffected()
			return err
		})
		if err != nil {
			return ignore(err, store.ErrDivided)
		}
	}
	return nil
}

// trimDay removes a day of a user's log, the index first: if the rest fails, the day is still
// counted and is trimmed again.
func (s *Store) trimDay(ctx context.Context, user string, begins time.Time) error {
	span := span{posthaste.FirstPosition(begins), posthaste.FirstPosition(begins.Add(day)) - 1}
	if err := s.trimPostings(ctx, user, span); err != nil {
		return err
	}
	if err := s.trimCounts(ctx, user, begins); err != nil { // of an hour without counts nothing is found
		return err
	}
	for more := true; more; {
		others, err := s.otherPartitions(ctx, user)
		if err != nil {
			return err
		}
		err = s.change(ctx, time.Time{}, append(others, user), prefetch{}, func(tx *tx) (err error) {
			more, err = tx.trimBlocks(user, others, span)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// otherPartitions returns the partitions into which messages may have been moved whose events are in this one.
func (s *Store) otherPartitions(ctx context.Context, partition string) ([]string, error) {
	if len(s.Division().Before) == 0 {
		return nil, nil
	}
	return rows(ctx, s.pool, pgx.RowTo[string],
		`SELECT user_id FROM posthaste.users WHERE `+partitionsOf+` AND user_id <> $2`, store.UserOf(partition), partition)
}

// span is an inclusive range of positions.
type span struct{ low, high posthaste.Position }

// trimPostings removes the index of a day. Nobody writes there any more, so the user is not
// locked; concurrent calls delete in the same order.
func (s *Store) trimPostings(ctx context.Context, user string, in span) error {
	for reached := (&postingKey{Term: math.MinInt64}); reached != nil; {
		seen, err := rows(ctx, s.pool, pgx.RowToAddrOfStructByPos[postingKey], `
			WITH seen AS MATERIALIZED (
				SELECT term, first FROM posthaste.postings
				WHERE user_id = $1 AND first BETWEEN $2 AND $3 AND (term, first) > ($4, $5)
				ORDER BY term, first LIMIT $6),
			locked AS MATERIALIZED (
				SELECT p.term, p.first FROM posthaste.postings p JOIN seen USING (term, first)
				WHERE p.user_id = $1 AND p.first BETWEEN $2 AND $3 ORDER BY p.term, p.first FOR UPDATE OF p),
			gone AS (
				DELETE FROM posthaste.postings p USING locked l
				WHERE p.user_id = $1 AND p.first BETWEEN $2 AND $3 AND p.term = l.term AND p.first = l.first)
			SELECT term, first FROM seen ORDER BY term DESC, first DESC LIMIT 1`,
			user, int64(in.low), int64(in.high), reached.Term, reached.First, postingsAtOnce)
		if err != nil {
			return err
		}
		if reached = nil; len(seen) > 0 {
			reached = seen[0]
		}
	}
	return nil
}

// postingKey is the key of a user's posting.
type postingKey struct{ Term, First int64 }

// trimBlocks removes the first blocks of a day, and those of their messages that have no event
// behind it, wherever those are. It reports whether there are more.
func (tx *tx) trimBlocks(user string, others []string, in span) (more bool, err error) {
	gone, err := rows(tx.ctx, tx, scanBlock, `
		DELETE FROM posthaste.events WHERE user_id = $1 AND first BETWEEN $2 AND (SELECT max(first) FROM (
			SELECT first FROM posthaste.events WHERE user_id = $1 AND first BETWEEN $2 AND $3 ORDER BY first LIMIT $4) AS portion)
		RETURNING first, block`, user, int64(in.low), int64(in.high), blocksAtOnce)
	if err != nil || len(gone) == 0 {
		return false, err
	}
	var of idSet
	var last posthaste.Position
	for _, events := range gone {
		for _, e := range events {
			of.add(e.MessageID)
			last = max(last, e.Position)
			tx.addUsage(usageKey{user, usageLog, dayOf(e.Position)}, -1, 0) // the size goes with the day
		}
	}
	tx.exec(`DELETE FROM posthaste.responses WHERE user_id = $1 AND first BETWEEN $2 AND $3`,
		user, int64(in.low), int64(last))
	return len(gone) == blocksAtOnce, tx.trimMessages(user, others, of.ids, in.high+1)
}

// idSet is a set of ids in order.
type idSet struct {
	known map[posthaste.MessageID]bool
	ids   []posthaste.MessageID
}

func (s *idSet) add(id posthaste.MessageID) {
	if s.known == nil {
		s.known = map[posthaste.MessageID]bool{}
	}
	if !s.known[id] {
		s.known[id] = true
		s.ids = append(s.ids, id)
	}
}

// trimMessages removes ended messages without an event from a position on: those with some ids, and those that are
// found by the same terms, which may have stayed for the events of these. One that was moved into another
// partition goes with its events in others, if it has any. An unreadable one stays: it may have started an active run.
func (tx *tx) trimMessages(user string, others []string, ids []posthaste.MessageID, end posthaste.Position) error {
	all := append([]string{user}, others...)
	for more := true; more; {
		var err error
		if more, err = indexLogs(tx.ctx, tx.conn, &tx.store.series, all); err != nil {
			return err
		}
	}
	terms := column(ids, func(id posthaste.MessageID) int64 { return termColumn(index.Message(id)) })
	least := column(ids, func(id posthaste.MessageID) [16]byte { return index.LeastMessage(id) })
	most := column(ids, func(id posthaste.MessageID) [16]byte { return index.MostMessage(id) })
	ended, err := rows(tx.ctx, tx, scanMessage, `
		SELECT DISTINCT ON (m.user_id, m.id) m.* FROM unnest($2::uuid[], $6::uuid[], $3::bigint[]) AS w (least, most, term), LATERAL (
			SELECT user_id, id, record FROM posthaste.messages WHERE user_id = ANY($5) AND id BETWEEN w.least AND w.most OFFSET 0) AS m
		WHERE NOT EXISTS (SELECT FROM posthaste.live WHERE user_id = ANY($5) AND id = m.id OFFSET 0)
			AND NOT EXISTS (SELECT FROM posthaste.postings p WHERE p.user_id = $1 AND p.term = w.term AND p.first >= $4 OFFSET 0)
			AND (m.user_id = $1 OR NOT EXISTS (
				SELECT FROM posthaste.postings p WHERE p.user_id = ANY($5) AND p.user_id <> $1 AND p.term = w.term OFFSET 0))`,
		user, least, terms, int64(end), all, most)
	if err != nil {
		return err
	}
	var gone []messageOf
	for _, m := range ended {
		if m.message == nil {
			continue
		}
		begins, err := tx.beginsRun(m.message)
		if err != nil {
			return err
		}
		if !begins {
			gone = append(gone, m.messageOf)
		}
	}
	users, gones := messageColumns(gone)
	tx.exec(deleteMessages, users, gones)
	tx.exec(deleteEndings, users, gones)
	return nil
}

// beginsRun reports whether a message is the first of an active run.
func (tx *tx) beginsRun(m *posthaste.Message) (bool, error) {
	if m.Run == nil {
		return false, nil
	}
	user := tx.divisionOf(m.User).Of(store.UserOf(m.User), m.Run.Position.Slot()) // its messages may be elsewhere
	data, err := tx.recordAnywhere(recordOf{user, store.ItemRun, string(positionKey(int64(m.Run.Position)))})
	if err != nil {
		return false, ignore(err, store.ErrNotFound)
	}
	run, err := record.DecodeRunItem(m.User, data)
	if err != nil {
		return false, err
	}
	return run.Active() && run.FirstID == m.ID, nil
}
