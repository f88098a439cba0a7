package api

import (
	"context"
	"net/url"
	"slices"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/engine"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// dlq is one of the two DLQs.
type dlq struct {
	ofRuns   bool                 // lists are done page by page
	deletion posthaste.ActionKind // in the background

	read   func(params url.Values, count wire.Count) (wire.Selected, error)
	find   engine.FindEntries
	remove func(ctx context.Context, user string, ids []posthaste.DeadLetterID) (removed int, done []posthaste.DeadLetterID, err error)

	unknown func(id string) error                             // the error about an unknown id
	missing func(r *request, id posthaste.DeadLetterID) error // that, if the id may be one of the other DLQ
}

func (a *api) deadLetterDLQ() *dlq {
	return &dlq{
		deletion: posthaste.ActionDelete,
		read:     wire.SweepDeadLetters,
		find: func(ctx context.Context, user string, query store.DeadLetterQuery) (store.DeadLetterPage, error) {
			return a.options.Engine.DeadLetters(ctx, user, query)
		},
		remove: func(ctx context.Context, user string, ids []posthaste.DeadLetterID) (int, []posthaste.DeadLetterID, error) {
			removed, err := a.options.Engine.DeleteDeadLetters(ctx, user, ids)
			return len(removed), removed, err
		},
		unknown: noDeadLetter,
		missing: func(r *request, id posthaste.DeadLetterID) error { return a.orNoDeadLetter(r, store.ErrNotFound, id) },
	}
}

func (a *api) failedRunDLQ() *dlq {
	return &dlq{
		ofRuns:   true,
		deletion: posthaste.ActionDeleteRuns,
		read:     wire.SweepFailedRuns,
		find: func(ctx context.Context, user string, query store.DeadLetterQuery) (store.DeadLetterPage, error) {
			return a.options.Workflows.FailedIDs(ctx, user, query)
		},
		remove: func(ctx context.Context, user string, ids []posthaste.DeadLetterID) (int, []posthaste.DeadLetterID, error) {
			removed, err := a.options.Workflows.DeleteFailed(ctx, user, ids)
			return removed, ids, err
		},
		unknown: workflow.NoFailedRun,
		missing: a.explainMissing,
	}
}

// dlqCount limits one call that lists or deletes entries, or retries messages.
var dlqCount = wire.Count{Default: 100, Most: 100}

// sweep is a call on listed entries of a DLQ or on a page of matching ones. Pages are oldest first by
// default and end at the newest entry when the sweep began, so that later failures are not included.
type sweep struct {
	*dlq
	given url.Values

	ids  []string // distinct; nil: no list
	done int      // by earlier calls

	wire.Selected // with a list: only Begun and Limit

	async  bool // in the background
	dryRun bool // changes nothing
}

// sweep reads such a call; count limits a page.
func (r *request) sweep(d *dlq, count wire.Count) (s sweep, err error) {
	s.dlq = d
	if s.given, _, err = r.callParameters("dlqIds"); err != nil {
		return s, err
	}
	if s.async, err = wire.Flag(s.given, "async"); err != nil {
		return s, err
	}
	if s.dryRun, err = wire.Flag(s.given, "dryRun"); err != nil {
		return s, err
	}
	if s.ids, err = wire.IDs(s.given, "dlqIds"); err != nil {
		return s, err
	}
	filters := s.filters()
	if s.ids != nil && d.ofRuns {
		if s.done, s.Begun, err = wire.ListDone(s.given, s.ids); err != nil {
			return s, err
		}
		delete(filters, "cursor")
	}
	selected, err := d.read(filters, count)
	switch {
	case s.ids == nil:
		s.Selected = selected
	case d.ofRuns:
		s.Limit = selected.Limit
	default:
		s.Limit = len(s.ids)
	}
	return s, err
}

// filters returns the filters among the parameters.
func (s *sweep) filters() url.Values {
	filters := wire.Without(s.given, "dlqIds")
	if s.ofRuns {
		delete(filters, "dryRun")
	}
	return filters
}

// sweepPage is what one call does of a sweep.
type sweepPage struct {
	ids    []posthaste.DeadLetterID
	cursor string                                 // of the next call, "" for the last
	at     func(id posthaste.DeadLetterID) string // cursor of a call that starts at an id
}

// after returns the next cursor if some ids remain.
func (p *sweepPage) after(left []posthaste.DeadLetterID) string {
	if len(left) > 0 {
		return p.at(left[0])
	}
	return p.cursor
}

// page returns the next page of a sweep.
func (s *sweep) page(r *request) (page sweepPage, err error) {
	if s.ids != nil {
		return s.listedPage(), nil
	}
	if !s.Begun {
		newest, err := s.find.Newest(r.Context(), r.user)
		if err != nil {
			return page, err
		}
		s.High = min(s.High, newest)
	}
	query := s.DeadLetters()
	query.Bare = true
	found, err := s.find(r.Context(), r.user, query)
	page.ids = found.IDs
	if found.More {
		page.cursor = wire.SweepCursor(found.Next, s.High)
	}
	page.at = func(id posthaste.DeadLetterID) string { return wire.SweepCursor(posthaste.Position(id), s.High) }
	return page, err
}

// listedPage returns the next page of a list, without invalid ids.
func (s *sweep) listedPage() sweepPage {
	end := min(s.done+s.Limit, len(s.ids))
	page := sweepPage{ids: parseDeadLetterIDs(s.ids[s.done:end])}
	if end < len(s.ids) {
		page.cursor = wire.ListCursor(s.ids[:end])
	}
	page.at = func(id posthaste.DeadLetterID) string {
		return wire.ListCursor(s.ids[:slices.Index(s.ids, id.String())])
	}
	return page
}

// parseDeadLetterIDs ignores invalid ids.
func parseDeadLetterIDs(texts []string) []posthaste.DeadLetterID {
	ids := make([]posthaste.DeadLetterID, 0, len(texts))
	for _, text := range texts {
		if id, ok := posthaste.ParseDeadLetterID(text); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// known returns the first of the ids that are in the DLQ, in order, and the first one that is not.
func (d *dlq) known(r *request, texts []string) (known []posthaste.DeadLetterID, unknown string, err error) {
	const atOnce = 1000
	there := map[posthaste.DeadLetterID]bool{}
	for ids := range slices.Chunk(parseDeadLetterIDs(texts), atOnce) {
		query := store.DeadLetterQuery{
			Filter: posthaste.Filter{DeadLetterIDs: ids}, High: posthaste.MaxPosition, Limit: atOnce, OldestFirst: true, Bare: true,
		}
		for more := true; more; {
			found, err := d.find(r.Context(), r.user, query)
			if err != nil {
				return nil, "", err
			}
			for _, id := range found.IDs {
				there[id] = true
			}
			more, query.Low = found.More, found.Next
		}
	}
	for _, text := range texts {
		id, isID := posthaste.ParseDeadLetterID(text)
		if isID && there[id] {
			known = append(known, id)
		} else if unknown == "" {
			unknown = text
		}
	}
	return known, unknown, nil
}

// inBackground starts a bulk action on what the filters match.
func (a *api) inBackground(r *request, kind posthaste.ActionKind, s *sweep, overrides posthaste.Overrides) (answer, error) {
	switch {
	case s.ids != nil && s.ofRuns:
		return answer{}, posthaste.Invalidf("dlqIds cannot be given with async=true: listed entries are changed by this request and those with its cursors")
	case s.ids != nil:
		return answer{}, posthaste.Invalidf("dlqIds cannot be given with async=true: listed entries are changed at once")
	case s.dryRun:
		return answer{}, posthaste.Invalidf("dryRun cannot be given with async=true: a dry run does nothing in the background")
	}
	return a.startAction(r, kind, s.filters(), s.Filter, overrides)
}

// deletedPage is the response to a deletion of many entries.
type deletedPage struct {
	Deleted int    `json:"deleted"`
	Cursor  string `json:"cursor,omitempty"`
}

// deleteEntries removes entries. Unknown ids do not count, and a list of any length is done at once.
func (a *api) deleteEntries(d *dlq) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		s, err := r.sweep(d, dlqCount)
		if err != nil {
			return answer{}, err
		}
		if s.async {
			return a.inBackground(r, d.deletion, &s, posthaste.Overrides{})
		}
		s.Limit = max(s.Limit, len(s.ids))
		if s.dryRun {
			return a.dryRun(r, &s)
		}
		var deleted deletedPage
		err = r.withReservation(func() error {
			page, err := s.page(r)
			if err != nil {
				return err
			}
			left, err := inCommits(page.ids, s.ids != nil, func(some []posthaste.DeadLetterID) ([]posthaste.DeadLetterID, error) {
				removed, done, err := d.remove(r.Context(), r.user, some)
				deleted.Deleted += removed
				return done, err
			})
			deleted.Cursor = page.after(left)
			return err
		})
		return ok(deleted), err
	}
}

// deleteEntry removes the entry in the path.
func (a *api) deleteEntry(d *dlq) func(r *request, id posthaste.DeadLetterID) (answer, error) {
	return func(r *request, id posthaste.DeadLetterID) (answer, error) {
		removed := 0
		err := r.withReservation(func() (err error) {
			removed, _, err = d.remove(r.Context(), r.user, []posthaste.DeadLetterID{id})
			return err
		})
		if err == nil && removed == 0 {
			err = d.missing(r, id)
		}
		return done, err
	}
}

// inCommits calls do with up to atOnce ids per commit; do returns those that are done. Unless all
// is set it stops when that takes long. It returns the remaining ids, which after an error may
// start with changed ones.
func inCommits(ids []posthaste.DeadLetterID, all bool, do func(some []posthaste.DeadLetterID) ([]posthaste.DeadLetterID, error),
) (left []posthaste.DeadLetterID, err error) {
	batch := store.NewBatchLimit()
	for left = ids; len(left) > 0; {
		some := left[:min(len(left), atOnce)]
		done, err := do(some)
		if err != nil {
			return left, err
		}
		left = left[len(some)-len(store.IDsAfter(some, done)):]
		if !all && batch.Full() {
			break
		}
	}
	return left, nil
}

// dryRunView is the response to a dry run (contract, decision 18).
type dryRunView struct {
	DryRun   bool          `json:"dryRun"`
	Total    int           `json:"total"` // including later pages
	DLQIDs   []string      `json:"dlqIds"`
	Cursor   string        `json:"cursor,omitempty"`
	Failures []failureView `json:"failures,omitempty"` // entries that would stay
}

// dryRun shows what a deletion of failed runs would change.
func (a *api) dryRun(r *request, s *sweep) (answer, error) {
	page, total, _, err := a.dryRunPage(r, s)
	return ok(newDryRunView(page, total)), err
}

func newDryRunView(page sweepPage, total int) dryRunView {
	return dryRunView{DryRun: true, Total: total, DLQIDs: views(page.ids, posthaste.DeadLetterID.String), Cursor: page.cursor}
}

// dryRunPage returns the next page of a sweep, of a list only known ids and the first unknown one, and
// the number of remaining entries.
func (a *api) dryRunPage(r *request, s *sweep) (page sweepPage, total int, unknown string, err error) {
	if page, err = s.page(r); err != nil {
		return page, 0, "", err
	}
	if s.ids == nil {
		total, err = s.find.Count(r.Context(), r.user, s.DeadLetters())
		return page, total, "", err
	}
	known, unknown, err := s.known(r, s.ids[s.done:])
	page.ids = slices.DeleteFunc(page.ids, func(id posthaste.DeadLetterID) bool { return !slices.Contains(known, id) })
	return page, len(known), unknown, err
}
