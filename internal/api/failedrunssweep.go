package api

import (
	"net/url"
	"slices"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// failedRunSweep is a call on listed or matching entries of the DLQ of runs. Both are done in
// pages; the cursor leads through the list, or through what had failed when the sweep began.
type failedRunSweep struct {
	given url.Values

	ids  []string // distinct; nil: no list
	done int      // by earlier calls

	wire.Selected // with a list: only Begun and Limit

	async  bool // in the background
	dryRun bool // changes nothing
}

// failedRunSweep reads such a call; count limits a page.
func (r *request) failedRunSweep(count wire.Count) (s failedRunSweep, err error) {
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
	if s.ids != nil {
		if s.done, s.Begun, err = wire.ListDone(s.given, s.ids); err != nil {
			return s, err
		}
		delete(filters, "cursor")
	}
	selected, err := wire.SweepFailedRuns(filters, count)
	if s.ids != nil {
		selected = wire.Selected{Begun: s.Begun, Limit: selected.Limit}
	}
	s.Selected = selected
	return s, err
}

// filters returns the filters among the parameters.
func (s *failedRunSweep) filters() url.Values {
	return wire.Without(wire.Without(s.given, "dlqIds"), "dryRun")
}

// failedRunPage is what one call does of a sweep.
type failedRunPage struct {
	ids    []posthaste.DeadLetterID
	cursor string                                 // of the next call, "" for the last
	at     func(id posthaste.DeadLetterID) string // cursor of a call that starts at an id
}

// after returns the next cursor if some ids remain.
func (p *failedRunPage) after(left []posthaste.DeadLetterID) string {
	if len(left) > 0 {
		return p.at(left[0])
	}
	return p.cursor
}

// failedRunPage returns the next page of a sweep.
func (a *api) failedRunPage(r *request, s *failedRunSweep) (page failedRunPage, err error) {
	if s.ids != nil {
		return s.listedPage(), nil
	}
	query := s.Runs()
	if !s.Begun {
		if query, err = a.options.Workflows.BeginSweep(r.Context(), r.user, query); err != nil {
			return page, err
		}
		s.High = query.High
	}
	query.Bare = true
	found, err := a.options.Workflows.Failed(r.Context(), r.user, query)
	for _, run := range found.Runs {
		page.ids = append(page.ids, run.DeadLetterID)
	}
	if found.More {
		page.cursor = wire.SweepCursor(found.Next, s.High)
	}
	page.at = func(id posthaste.DeadLetterID) string {
		return wire.SweepCursor(posthaste.Position(id), s.High)
	}
	return page, err
}

// listedPage returns the next page of a list, without invalid ids.
func (s *failedRunSweep) listedPage() failedRunPage {
	end := min(s.done+s.Limit, len(s.ids))
	page := failedRunPage{ids: parseDeadLetterIDs(s.ids[s.done:end])}
	if end < len(s.ids) {
		page.cursor = wire.ListCursor(s.ids[:end])
	}
	page.at = func(id posthaste.DeadLetterID) string {
		return wire.ListCursor(s.ids[:slices.Index(s.ids, id.String())])
	}
	return page
}

// knownFailedRuns returns the ids in the DLQ, in order, and an Error with CodeNotFound about the
// first one that is not.
func (a *api) knownFailedRuns(r *request, texts []string) (known []posthaste.DeadLetterID, missing, err error) {
	const atOnce = 1000
	there := map[posthaste.DeadLetterID]bool{}
	for ids := range slices.Chunk(parseDeadLetterIDs(texts), atOnce) {
		query := store.RunQuery{
			Filter: posthaste.Filter{DeadLetterIDs: ids}, High: posthaste.MaxPosition, Limit: atOnce, OldestFirst: true, Bare: true,
		}
		for more := true; more; {
			page, err := a.options.Workflows.Failed(r.Context(), r.user, query)
			if err != nil {
				return nil, nil, err
			}
			for _, run := range page.Runs {
				there[run.DeadLetterID] = true
			}
			more, query.Low = page.More, page.Next
		}
	}
	for _, text := range texts {
		id, isID := posthaste.ParseDeadLetterID(text)
		if isID && there[id] {
			known = append(known, id)
		} else if missing == nil {
			missing = workflow.NoFailedRun(text)
		}
	}
	return known, missing, nil
}

// dryRunView is the response to a dry run (contract, decision 18).
type dryRunView struct {
	DryRun   bool          `json:"dryRun"`
	Total    int           `json:"total"` // including later pages
	DLQIDs   []string      `json:"dlqIds"`
	Cursor   string        `json:"cursor,omitempty"`
	Failures []failureView `json:"failures,omitempty"` // entries that would stay
}

// dryRun shows what a sweep would change. allKnown rejects unknown ids like the sweep would.
func (a *api) dryRun(r *request, s *failedRunSweep, allKnown bool) (answer, error) {
	page, total, err := a.dryRunPage(r, s, allKnown)
	return ok(newDryRunView(page, total)), err
}

// dryRestart is dryRun for a restart, with what would be rejected.
func (a *api) dryRestart(r *request, s *failedRunSweep, req workflow.RestartRequest) (answer, error) {
	page, total, err := a.dryRunPage(r, s, !s.Begun)
	if err != nil {
		return answer{}, err
	}
	req.IDs = page.ids
	refused, err := a.options.Workflows.CannotRestart(r.Context(), r.user, req)
	view := newDryRunView(page, total)
	for _, result := range refused {
		view.Failures = append(view.Failures, newRestartFailure(result))
	}
	return ok(view), err
}

func newDryRunView(page failedRunPage, total int) dryRunView {
	return dryRunView{DryRun: true, Total: total, DLQIDs: views(page.ids, posthaste.DeadLetterID.String), Cursor: page.cursor}
}

// dryRunPage returns the next page of a sweep, of a list only known ids, and the number of
// remaining entries.
func (a *api) dryRunPage(r *request, s *failedRunSweep, allKnown bool) (page failedRunPage, total int, err error) {
	if page, err = a.failedRunPage(r, s); err != nil {
		return page, 0, err
	}
	if s.ids == nil {
		total, err = a.options.Workflows.CountFailed(r.Context(), r.user, s.Runs())
		return page, total, err
	}
	known, missing, err := a.knownFailedRuns(r, s.ids[s.done:])
	if err == nil && allKnown {
		err = missing
	}
	page.ids = slices.DeleteFunc(page.ids, func(id posthaste.DeadLetterID) bool { return !slices.Contains(known, id) })
	return page, len(known), err
}

// deleteFailedRuns removes entries. Unknown ids do not count, and a list of any length is done at
// once.
func (a *api) deleteFailedRuns(r *request) (answer, error) {
	s, err := r.failedRunSweep(failedRunCount)
	if err != nil {
		return answer{}, err
	}
	if s.async {
		return a.sweepInBackground(r, posthaste.ActionDeleteRuns, &s, posthaste.Overrides{})
	}
	s.Limit = max(s.Limit, len(s.ids))
	if s.dryRun {
		return a.dryRun(r, &s, false)
	}
	page, err := a.failedRunPage(r, &s)
	if err != nil {
		return answer{}, err
	}
	deleted := 0
	for some := range slices.Chunk(page.ids, atOnce) {
		n, err := a.options.Workflows.DeleteFailed(r.Context(), r.user, some)
		if deleted += n; err != nil {
			return answer{}, err
		}
	}
	return ok(struct {
		Deleted int    `json:"deleted"`
		Cursor  string `json:"cursor,omitempty"`
	}{deleted, page.cursor}), nil
}

// sweepInBackground starts a bulk action on what the filters match.
func (a *api) sweepInBackground(r *request, kind posthaste.ActionKind, s *failedRunSweep, overrides posthaste.Overrides) (answer, error) {
	switch {
	case s.ids != nil:
		return answer{}, posthaste.Invalidf("dlqIds cannot be given with async=true: listed entries are changed by this request and those with its cursors")
	case s.dryRun:
		return answer{}, posthaste.Invalidf("dryRun cannot be given with async=true: a dry run does nothing in the background")
	}
	return a.startAction(r, kind, s.filters(), s.Filter, overrides)
}
