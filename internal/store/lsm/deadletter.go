package lsm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// addToDLQ writes a dead letter and its postings. Dead letters leave one by one, so
// each posting stands alone.
func (s *Store) addToDLQ(c *commit, d *posthaste.DeadLetter) {
	c.setRecord(appendDeadLetterKey(c.key(), d.Message.User, d.ID), record.AppendDeadLetter(nil, d))
	c.count(appendCountKey(c.key(), countedDeadLetters, d.Message.User), 1)
	for _, t := range index.DeadLetter(d) {
		c.setRecord(appendDeadLetterPosting(c.key(), d, t), nil)
	}
}

// removeFromDLQ deletes dead letters of a user, each of which is there, and their postings.
func (s *Store) removeFromDLQ(c *commit, user string, letters []*posthaste.DeadLetter) {
	removed, entry := removals{}, appendUser([]byte{kindDeadLetter, deadLetterEntry}, user)
	for _, d := range letters {
		c.count(appendCountKey(c.key(), countedDeadLetters, user), -1)
		removed.add(entry, posthaste.Position(d.ID))
		for _, t := range index.DeadLetter(d) {
			removed.add(appendDeadLetterPostingPrefix(nil, user, t), posthaste.Position(d.ID))
		}
	}
	removed.write(c.records(), c.writableRecords())
}

func appendDeadLetterPosting(key []byte, d *posthaste.DeadLetter, t store.Term) []byte {
	return binary.BigEndian.AppendUint64(appendDeadLetterPostingPrefix(key, d.Message.User, t), uint64(d.ID))
}

// readDeadLetter returns store.ErrNotFound for an unknown one.
func readDeadLetter(r pebble.Reader, user string, id posthaste.DeadLetterID) (*posthaste.DeadLetter, error) {
	var d *posthaste.DeadLetter
	err := get(r, appendDeadLetterKey(nil, user, id), func(data []byte) (err error) {
		d, err = record.DecodeDeadLetter(id, user, data)
		return err
	})
	return d, err
}

// DeadLetter implements store.DeadLetters.
func (s *Store) DeadLetter(_ context.Context, user string, id posthaste.DeadLetterID) (_ *posthaste.DeadLetter, err error) {
	done, err := s.reading()
	if err != nil {
		return nil, err
	}
	defer done(&err)
	return readDeadLetter(s.db, user, id)
}

// DeadLetters implements store.DeadLetters.
func (s *Store) DeadLetters(_ context.Context, user string, query store.DeadLetterQuery) (page store.DeadLetterPage, err error) {
	err = s.browse(query.Low, &query.High, direction(query.OldestFirst), func(e *entries) (err error) {
		positions, err := deadLetterPositions(e, user, &query)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, positions.close()) }()
		r := &deadLetterReader{reader: e.reader, user: user, query: query, budget: store.NewPageBudget(0)}
		if err := r.run(positions); err != nil {
			return fmt.Errorf("read dead letters: %w", err)
		}
		page = r.page
		return nil
	})
	return page, err
}

// deadLetterPositions opens the set of positions that a query's filter selects.
func deadLetterPositions(e *entries, user string, query *store.DeadLetterQuery) (*intersection, error) {
	var prefixes [][][]byte
	for _, terms := range index.DeadLetters(&query.Filter) {
		prefixes = append(prefixes, each(terms, func(t store.Term) []byte { return appendDeadLetterPostingPrefix(nil, user, t) }))
	}
	in, err := intersectOf(prefixes, e.direction, e.open)
	if err != nil {
		return nil, err
	}
	switch {
	case len(query.Filter.IDs) > 0:
		ids := each(query.Filter.IDs, func(id posthaste.DeadLetterID) posthaste.Position { return posthaste.Position(id) })
		slices.Sort(ids)
		in.sets = append(in.sets, fixedList{ids, e.direction})
	case len(prefixes) == 0:
		all, err := e.open(appendUser([]byte{kindDeadLetter, deadLetterEntry}, user), &in.seeks)
		if err != nil {
			return nil, errors.Join(err, in.close())
		}
		in.sets = append(in.sets, all)
	}
	return in, nil
}

// deadLetterReader answers one query.
type deadLetterReader struct {
	reader pebble.Reader
	user   string
	query  store.DeadLetterQuery
	page   store.DeadLetterPage
	budget store.PageBudget
}

func (r *deadLetterReader) run(positions *intersection) (err error) {
	r.page.Next, r.page.More, err = positions.walk(r.query.Low, r.query.High, direction(r.query.OldestFirst), r.consider)
	return err
}

// consider adds the dead letter at a position if it matches. It reports whether
// the page was full before it.
func (r *deadLetterReader) consider(at posthaste.Position) (full bool, err error) {
	d, err := readDeadLetter(r.reader, r.user, posthaste.DeadLetterID(at))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil || !r.query.Filter.Matches(d) {
		return false, err
	}
	if len(r.page.DeadLetters)+len(r.page.IDs) == r.query.Limit || !r.budget.Take(store.DeadLetterSize(d)) {
		return true, nil
	}
	if r.query.Bare {
		r.page.IDs = append(r.page.IDs, d.ID)
	} else {
		r.page.DeadLetters = append(r.page.DeadLetters, d)
	}
	return false, nil
}

// DeleteDeadLetters implements store.DeadLetters.
func (s *Store) DeleteDeadLetters(ctx context.Context, user string, ids []posthaste.DeadLetterID, step store.Progress) ([]posthaste.DeadLetterID, error) {
	var deleted []posthaste.DeadLetterID
	err := s.writer.do(ctx, func(c *commit) error {
		var found []*posthaste.DeadLetter
		left, err := s.lettersOf(c, user, ids, func(d *posthaste.DeadLetter) {
			d.Message.Body, d.Response = nil, withoutBody(d.Response)
			found = append(found, d)
		})
		if err != nil {
			return err
		}
		if err := advance(c, user, step.Step(left), len(found), nil); err != nil {
			return err
		}
		s.removeFromDLQ(c, user, found)
		for _, d := range found {
			deleted = append(deleted, d.ID)
		}
		return nil
	})
	return answer(&deleted, err)
}

// withoutBody returns what is found of a response, nil for none.
func withoutBody(r *posthaste.Response) *posthaste.Response {
	if r == nil {
		return nil
	}
	return &posthaste.Response{Status: r.Status}
}

// lettersOf reads those of the dead letters that are there, each once, until that is enough
// for a commit. It returns the ids that are left.
func (s *Store) lettersOf(c *commit, user string, ids []posthaste.DeadLetterID, take func(*posthaste.DeadLetter)) (left []posthaste.DeadLetterID, err error) {
	batch, seen := store.NewBatchLimit(), map[posthaste.DeadLetterID]bool{}
	for i, id := range ids {
		if len(seen) > 0 && batch.Full() {
			return ids[i:], nil
		}
		if seen[id] {
			continue
		}
		d, err := readDeadLetter(c.records(), user, id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		batch.Take(store.DeadLetterSize(d))
		seen[id] = true
		take(d)
	}
	return nil, nil
}

// RetryDeadLetters implements store.DeadLetters.
func (s *Store) RetryDeadLetters(ctx context.Context, now time.Time, user string, ids []posthaste.DeadLetterID,
	remake func(*posthaste.DeadLetter) (*posthaste.Message, error), step store.Progress,
) ([]store.Retried, error) {
	if err := s.reserve.check(); err != nil {
		return nil, err
	}
	var results []store.Retried
	err := s.writer.do(ctx, func(c *commit) error {
		var found []*posthaste.DeadLetter
		left, err := s.lettersOf(c, user, ids, func(d *posthaste.DeadLetter) { found = append(found, d) })
		if err != nil {
			return err
		}
		remade := make([]arrival, len(found))
		for i, d := range found {
			m, remakeErr := remake(d)
			results = append(results, store.Retried{ID: d.ID, Message: m, Err: remakeErr})
			if remakeErr != nil {
				continue
			}
			if remade[i], err = s.newMessages(c, []*posthaste.Message{m}); err != nil {
				return err
			}
		}
		failures := store.FailuresOf(results)
		if err := advance(c, user, step.Step(left), len(found)-len(failures), failures); err != nil {
			return err
		}
		var retried []*posthaste.DeadLetter
		for i, d := range found {
			if results[i].Err == nil {
				s.accept(c, now, &remade[i])
				retried = append(retried, d)
			}
		}
		s.removeFromDLQ(c, user, retried)
		return nil
	})
	return answer(&results, err)
}
