package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// Runs implements store.Store.
func (l *Ledger) Runs(ctx context.Context, user string, query store.RunQuery) (store.RunPage, error) {
	p := runPage{user: user, query: &query}
	err := l.View(ctx, store.Scope{User: user}, func(r store.Reader) error {
		p.page, p.budget = store.RunPage{}, store.NewPageBudget(0)
		if query.Failed {
			return p.readFailed(r)
		}
		return p.readRuns(r)
	})
	if err != nil {
		return store.RunPage{}, fmt.Errorf("read runs: %w", err)
	}
	return p.page, nil
}

// runPage collects a page.
type runPage struct {
	user   string
	query  *store.RunQuery
	page   store.RunPage
	budget store.PageBudget
}

// add adds a run that matches, and reports whether the page was full before it.
func (p *runPage) add(run *posthaste.Run, d *posthaste.DeadLetter) (full bool) {
	if !p.query.Filter.MatchesRun(run) {
		return false
	}
	size := store.RunSize(run)
	if d != nil {
		size += store.DeadLetterSize(d)
	}
	if len(p.page.Runs) == p.query.Limit || !p.budget.Take(size) {
		return true
	}
	p.page.Runs = append(p.page.Runs, run)
	if d != nil {
		p.page.DeadLetters = append(p.page.DeadLetters, d)
	}
	return false
}

// lookedAt is how many records a page looks at if the index does not know all of its filter.
const lookedAt = 2000

// find returns the query of a kind's index.
func (p *runPage) find(kind store.ItemKind, at []posthaste.Position) store.FindQuery {
	terms, whole := index.Runs(p.query)
	find := store.FindQuery{
		Kind: kind, Terms: terms, At: at,
		Low: p.query.Low, High: p.query.High, OldestFirst: p.query.OldestFirst, Limit: p.query.Limit + 1,
	}
	if !whole {
		find.Limit = max(find.Limit, lookedAt)
	}
	return find
}

func (p *runPage) readRuns(r store.Reader) (err error) {
	p.page.Next, p.page.More, err = r.Find(p.find(store.ItemRun, p.query.Filter.Positions), func(_ posthaste.Position, value []byte) (full bool, err error) {
		run, err := record.DecodeRunItem(p.user, value)
		if err != nil {
			return false, err
		}
		return p.add(run, nil), nil
	})
	return err
}

// failedAt is an entry of the DLQ of runs.
type failedAt struct {
	at, run posthaste.Position
	letter  *posthaste.DeadLetter // nil if the query is bare
}

// readFailed finds entries and then reads their runs.
func (p *runPage) readFailed(r store.Reader) error {
	at := make([]posthaste.Position, len(p.query.Filter.DeadLetterIDs))
	for i, id := range p.query.Filter.DeadLetterIDs {
		at[i] = posthaste.Position(id)
	}
	if prefixes := p.query.Filter.RunIDPrefixes; len(at) == 0 && len(prefixes) > 0 {
		named, ok, err := failedByID(r, prefixes)
		if err != nil || ok && len(named) == 0 {
			return err
		}
		at = named
	}
	find := p.find(store.ItemRunDeadLetter, at)
	found, next, more, err := p.findFailed(r, find)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(found, runsAtOnce) {
		if full, err := p.addFailed(r, some); full || err != nil {
			return err
		}
	}
	p.page.Next, p.page.More = next, more
	return nil
}

// findFailed returns about as many entries as a page can have.
func (p *runPage) findFailed(r store.Reader, find store.FindQuery) (found []failedAt, next posthaste.Position, more bool, err error) {
	budget := store.NewPageBudget(0)
	next, more, err = r.Find(find, func(at posthaste.Position, value []byte) (full bool, err error) {
		run, letter, err := record.FailedRun(value)
		if err != nil || len(found) == find.Limit || !p.query.Bare && !budget.Take(len(letter)) {
			return err == nil, err
		}
		f := failedAt{at: at, run: run}
		if !p.query.Bare {
			f.letter, err = record.DecodeDeadLetter(posthaste.DeadLetterID(at), p.user, letter)
		}
		found = append(found, f)
		return false, err
	})
	return found, next, more, err
}

// runsAtOnce is how many runs are read at once for a page.
const runsAtOnce = 100

// addFailed adds entries with their runs. It reports whether the page was full before one of them.
func (p *runPage) addFailed(r store.Reader, some []failedAt) (full bool, err error) {
	hint := store.Hint{Records: make([]store.RecordKey, len(some))}
	for i, f := range some {
		hint.Records[i] = runKey(f.run)
	}
	if err := r.Fetch(hint); err != nil {
		return false, err
	}
	for _, f := range some {
		run, _, err := readRun(r, p.user, f.run)
		if errors.Is(err, store.ErrNotFound) { // it was removed meanwhile
			continue
		}
		if err != nil {
			return false, err
		}
		if p.add(run, f.letter) {
			p.page.Next, p.page.More = f.at, true
			return true, nil
		}
	}
	return false, nil
}
