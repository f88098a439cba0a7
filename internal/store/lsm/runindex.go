package lsm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// Runs and their DLQ are indexed like the DLQ of messages: they change and leave
// one by one, so each posting stands alone.

// replacePostings changes what something at a position can be found by.
func (c *commit) replacePostings(part byte, user string, at posthaste.Position, before, after []store.Term) {
	for _, t := range before {
		if !slices.Contains(after, t) {
			c.deleteRecord(appendRunPostingKey(nil, part, user, t, at))
		}
	}
	for _, t := range after {
		if !slices.Contains(before, t) {
			c.setRecord(appendRunPostingKey(nil, part, user, t, at), nil)
		}
	}
}

func appendRunPostingPrefix(key []byte, part byte, user string, t store.Term) []byte {
	return binary.BigEndian.AppendUint64(append(appendRunPart(key, part, user), t.Field), t.Hash)
}

func appendRunPostingKey(key []byte, part byte, user string, t store.Term, at posthaste.Position) []byte {
	return binary.BigEndian.AppendUint64(appendRunPostingPrefix(key, part, user, t), uint64(at))
}

// appendLetterIDPrefix makes the beginning of the keys of dead letters whose runs
// have ids that begin so.
func appendLetterIDPrefix(key []byte, user, idPrefix string) []byte {
	return append(appendRunPart(key, runDeadLetterID, user), idPrefix...)
}

func appendLetterIDKey(key []byte, user, id string, at posthaste.DeadLetterID) []byte {
	return binary.BigEndian.AppendUint64(append(appendLetterIDPrefix(key, user, id), 0), uint64(at))
}

// AddToDLQ implements store.RunDLQ.
func (tx *runTx) AddToDLQ(run *posthaste.Run, d *posthaste.DeadLetter) {
	tx.stage(func() { tx.c.addRunToDLQ(tx.user, run, d) })
}

// addRunToDLQ writes every key of an entry of the DLQ of runs.
func (c *commit) addRunToDLQ(user string, run *posthaste.Run, d *posthaste.DeadLetter) {
	at := posthaste.Position(d.ID)
	place := binary.BigEndian.AppendUint64(nil, uint64(run.Position))
	c.setRecord(appendRunKey(nil, runDeadLetter, user, at), record.AppendDeadLetter(place, d))
	c.setRecord(appendLetterIDKey(nil, user, run.ID, d.ID), nil)
	c.count(appendCountKey(nil, countedFailedRuns, user), 1)
	c.replacePostings(runDeadLetterPosting, user, at, nil, index.FailedRun(run))
}

// DLQEntry implements store.RunDLQ.
func (tx *runTx) DLQEntry(id posthaste.DeadLetterID) (*posthaste.DeadLetter, *posthaste.Run, error) {
	if tx.ended[posthaste.Position(id)] {
		return nil, nil, store.ErrNotFound
	}
	d, at, err := readRunLetter(tx.c.records(), tx.user, id)
	if err != nil {
		return nil, nil, err
	}
	run, err := tx.Run(at)
	return d, run, err
}

// RemoveFromDLQ implements store.RunDLQ.
func (tx *runTx) RemoveFromDLQ(run *posthaste.Run) {
	id, at := run.DeadLetterID, posthaste.Position(run.DeadLetterID)
	if !tx.ended[at] {
		tx.ended[at] = true
		tx.left = append(tx.left, at)
	}
	state := tx.runs[run.Position].callback
	tx.stage(func() {
		tx.c.deleteRecord(appendLetterIDKey(nil, tx.user, run.ID, id))
		tx.removed.add(appendRunPart(nil, runDeadLetter, tx.user), at)
		for _, t := range append(index.FailedRun(run), index.Callback(state)) {
			tx.removed.add(appendRunPostingPrefix(nil, runDeadLetterPosting, tx.user, t), at)
		}
	})
}

// readRunLetter returns an entry of the DLQ and the place of its run.
func readRunLetter(r pebble.Reader, user string, id posthaste.DeadLetterID) (d *posthaste.DeadLetter, run posthaste.Position, err error) {
	err = getRunLetter(r, user, id, func(place posthaste.Position, letter []byte) (err error) {
		run = place
		d, err = record.DecodeDeadLetter(id, user, letter)
		return err
	})
	return d, run, err
}

// getRunLetter reads an entry of the DLQ and lends its record to use.
func getRunLetter(r pebble.Reader, user string, id posthaste.DeadLetterID, use func(run posthaste.Position, letter []byte) error) error {
	return get(r, appendRunKey(nil, runDeadLetter, user, posthaste.Position(id)), func(data []byte) error {
		if len(data) < 8 {
			return errCorrupt
		}
		return use(posthaste.Position(binary.BigEndian.Uint64(data)), data[8:])
	})
}

// Runs implements store.Runs.
func (s *Store) Runs(_ context.Context, user string, query store.RunQuery) (page store.RunPage, err error) {
	err = s.browse(query.Low, &query.High, direction(query.OldestFirst), func(e *entries) (err error) {
		positions, err := runPositions(e, user, &query)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, positions.close()) }()
		r := &runReader{reader: e.reader, user: user, query: query, budget: store.NewPageBudget(0)}
		if err := r.run(positions); err != nil {
			return fmt.Errorf("read runs: %w", err)
		}
		page = r.page
		return nil
	})
	return page, err
}

// runPositions opens the set of positions that a query selects.
func runPositions(e *entries, user string, query *store.RunQuery) (*intersection, error) {
	posting, entry := byte(runPosting), byte(runEnvelope)
	if query.Failed {
		posting, entry = runDeadLetterPosting, runDeadLetter
	}
	var prefixes [][][]byte
	lists, _ := index.Runs(query)
	for _, terms := range lists {
		prefixes = append(prefixes, each(terms, func(t store.Term) []byte { return appendRunPostingPrefix(nil, posting, user, t) }))
	}
	in, err := intersectOf(prefixes, e.direction, e.open)
	if err != nil {
		return nil, err
	}
	named, err := namedRuns(e.reader, user, query)
	if err != nil {
		return nil, errors.Join(err, in.close())
	}
	if named != nil {
		in.sets = append(in.sets, fixedList{named, e.direction})
	}
	if len(in.sets) == 0 {
		all, err := e.open(appendRunPart(nil, entry, user), &in.seeks)
		if err != nil {
			return nil, errors.Join(err, in.close())
		}
		in.sets = append(in.sets, all)
	}
	return in, nil
}

// maxNamed is how many entries a prefix may name to be looked up by it. One that
// names more narrows so little that what else selects may as well be looked at.
const maxNamed = 1000

// namedRuns returns the positions that a filter names one by one, ascending; nil
// if it does not.
func namedRuns(r pebble.Reader, user string, query *store.RunQuery) ([]posthaste.Position, error) {
	var named []posthaste.Position
	switch f := &query.Filter; {
	case query.Failed && len(f.DeadLetterIDs) > 0:
		named = each(f.DeadLetterIDs, func(id posthaste.DeadLetterID) posthaste.Position { return posthaste.Position(id) })
	case query.Failed && len(f.IDPrefixes) > 0:
		return prefixedLetters(r, user, f.IDPrefixes)
	case !query.Failed && len(f.Positions) > 0:
		named = slices.Clone(f.Positions)
	}
	slices.Sort(named)
	return slices.Compact(named), nil
}

// prefixedLetters returns the dead letters of runs whose ids have one of the
// prefixes, nil if they are too many.
func prefixedLetters(r pebble.Reader, user string, idPrefixes []string) ([]posthaste.Position, error) {
	named := []posthaste.Position{}
	for _, idPrefix := range idPrefixes {
		err := scan(r, appendLetterIDPrefix(nil, user, idPrefix), func(key, _ []byte) error {
			if len(named) == maxNamed {
				return errEnough
			}
			at, err := parsePosition(key[len(key)-8:])
			named = append(named, at)
			return err
		})
		if errors.Is(err, errEnough) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(named)
	return slices.Compact(named), nil
}

// runReader answers one query.
type runReader struct {
	reader pebble.Reader
	user   string
	query  store.RunQuery
	page   store.RunPage
	budget store.PageBudget
}

func (r *runReader) run(positions *intersection) (err error) {
	r.page.Next, r.page.More, err = positions.walk(r.query.Low, r.query.High, direction(r.query.OldestFirst), r.consider)
	return err
}

// consider adds what is at a position if it matches. It reports whether the page
// was full before it.
func (r *runReader) consider(at posthaste.Position) (full bool, err error) {
	d, run, err := r.read(at)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil || !r.query.Filter.Matches(run) {
		return false, err
	}
	size := store.RunSize(run)
	if d != nil {
		size += store.DeadLetterSize(d)
	}
	if len(r.page.Runs) == r.query.Limit || !r.budget.Take(size) {
		return true, nil
	}
	r.page.Runs = append(r.page.Runs, run)
	if d != nil {
		r.page.DeadLetters = append(r.page.DeadLetters, d)
	}
	return false, nil
}

// read returns the run at a position; of the DLQ with its dead letter, unless the query
// is bare.
func (r *runReader) read(at posthaste.Position) (d *posthaste.DeadLetter, run *posthaste.Run, err error) {
	place := at
	switch id := posthaste.DeadLetterID(at); {
	case r.query.Failed && r.query.Bare:
		err = getRunLetter(r.reader, r.user, id, func(of posthaste.Position, _ []byte) error { place = of; return nil })
	case r.query.Failed:
		d, place, err = readRunLetter(r.reader, r.user, id)
	}
	if err != nil {
		return nil, nil, err
	}
	run, err = readRun(r.reader, r.user, place)
	return d, run, err
}
