package api

import (
	"net/http"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
)

// sweep is a call on listed dead letters or a page of matching ones. Pages are oldest first by
// default and end at the newest when the sweep began, so that later failures are not included.
type sweep struct {
	bulkCall
	wire.Selected
}

func (r *request) sweep() (s sweep, err error) {
	if s.bulkCall, err = r.bulkCall("dlqIds"); err != nil {
		return s, err
	}
	s.Selected, err = wire.SweepDeadLetters(s.params, deadLetterCount)
	return s, err
}

// nextPage returns the ids of a page and the next cursor, "" after the last.
func (a *api) nextPage(r *request, s *sweep) (ids []posthaste.DeadLetterID, cursor string, err error) {
	if !s.Begun {
		newest, err := a.options.Engine.NewestDeadLetter(r.Context(), r.user)
		if err != nil {
			return nil, "", err
		}
		s.High = min(s.High, newest)
	}
	query := s.DeadLetters()
	query.Bare = true
	page, err := a.options.Engine.DeadLetters(r.Context(), r.user, query)
	if err != nil {
		return nil, "", err
	}
	if page.More {
		cursor = wire.SweepCursor(page.Next, s.High)
	}
	return page.IDs, cursor, nil
}

// from returns the cursor of a page that starts at the first id.
func (s *sweep) from(ids []posthaste.DeadLetterID) string {
	return wire.SweepCursor(posthaste.Position(ids[0]), s.High)
}

// deleteDeadLetters removes dead letters; unknown ids do not count.
func (a *api) deleteDeadLetters(r *request) (answer, error) {
	s, err := r.sweep()
	if err != nil {
		return answer{}, err
	}
	if s.async {
		return a.startAction(r, posthaste.ActionDelete, s.params, s.Filter, posthaste.Overrides{})
	}
	var page deletedPage
	err = r.withReservation(func() (err error) {
		page, err = a.deletePage(r, &s)
		return err
	})
	return ok(page), err
}

type deletedPage struct {
	Deleted int    `json:"deleted"`
	Cursor  string `json:"cursor,omitempty"`
}

func (a *api) deletePage(r *request, s *sweep) (page deletedPage, err error) {
	ids := parseDeadLetterIDs(s.ids)
	if s.ids == nil {
		if ids, page.Cursor, err = a.nextPage(r, s); err != nil {
			return page, err
		}
	}
	left, err := inCommits(ids, s.ids != nil, func(some []posthaste.DeadLetterID) ([]posthaste.DeadLetterID, error) {
		deleted, err := a.options.Engine.DeleteDeadLetters(r.Context(), r.user, some)
		page.Deleted += len(deleted)
		return deleted, err
	})
	if err == nil && len(left) > 0 {
		page.Cursor = s.from(left)
	}
	return page, err
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

// retriedView is a retried dead letter.
type retriedView struct {
	MessageID posthaste.MessageID `json:"messageId"`
	DLQID     string              `json:"dlqId"`
}

// retriedPage is the response to a retry of many dead letters.
type retriedPage struct {
	Responses []retriedView `json:"responses"`
	Cursor    string        `json:"cursor,omitempty"`
	Failures  []failureView `json:"failures,omitempty"` // dead letters that stay

	refusal error // of the last failure
}

// noneRetried returns why no dead letter was retried, nil if one was.
func (p *retriedPage) noneRetried() error {
	if len(p.Responses) > 0 {
		return nil
	}
	return p.refusal
}

// retryDeadLetters retries dead letters, with overrides from control headers. It is an error if
// every retry would reject them, or if all of the last page are rejected.
func (a *api) retryDeadLetters(r *request) (answer, error) {
	s, err := r.sweep()
	if err != nil {
		return answer{}, err
	}
	_, overrides, err := a.decodeOverrides(r)
	if err != nil {
		return answer{}, err
	}
	if err := a.options.Engine.CheckOverrides(overrides); err != nil {
		return answer{}, err
	}
	if s.async {
		return a.startAction(r, posthaste.ActionRetry, s.params, s.Filter, overrides)
	}
	var page retriedPage
	err = r.withReservation(func() (err error) {
		page, err = a.retryPage(r, &s, overrides)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	if err := page.noneRetried(); err != nil && page.Cursor == "" {
		return answer{}, err
	}
	return answer{http.StatusCreated, page}, nil
}

// retryPage retries a list, or a page that may end early. If it fails after some were retried, it
// returns those; the rest starts the next page or, of a list, is reported as failed.
func (a *api) retryPage(r *request, s *sweep, o posthaste.Overrides) (page retriedPage, err error) {
	var ids []posthaste.DeadLetterID
	var cursor string
	if s.ids != nil {
		ids, err = a.knownDeadLetters(r, s.ids)
	} else {
		ids, cursor, err = a.nextPage(r, s)
	}
	if err != nil {
		return page, err
	}
	page, left, err := a.retry(r, ids, s.ids != nil, o)
	page.Cursor = cursor
	switch {
	case len(left) == 0, err != nil && len(page.Responses) == 0:
		return page, err
	case err != nil:
		a.logFailure(r.Request, err)
	}
	if s.ids != nil {
		page.leave(left, err)
	} else {
		page.Cursor = s.from(left)
	}
	return page, nil
}

// knownDeadLetters returns an Error with CodeNotFound unless all ids exist (contract, U-43).
func (a *api) knownDeadLetters(r *request, texts []string) ([]posthaste.DeadLetterID, error) {
	ids := make([]posthaste.DeadLetterID, len(texts))
	for i, text := range texts {
		id, ok := posthaste.ParseDeadLetterID(text)
		if !ok {
			return nil, noDeadLetter(text)
		}
		if _, err := a.options.Engine.DeadLetter(r.Context(), r.user, id); err != nil {
			return nil, a.orNoDeadLetter(r, err, id)
		}
		ids[i] = id
	}
	return ids, nil
}

// retry retries existing dead letters like inCommits. Those that reject the overrides stay.
func (a *api) retry(r *request, ids []posthaste.DeadLetterID, all bool, o posthaste.Overrides) (page retriedPage, left []posthaste.DeadLetterID, err error) {
	page.Responses = []retriedView{}
	left, err = inCommits(ids, all, func(some []posthaste.DeadLetterID) ([]posthaste.DeadLetterID, error) {
		results, err := a.options.Engine.RetryDeadLetters(r.Context(), r.user, some, o)
		page.add(results)
		return store.RetriedIDs(results), err
	})
	return page, left, err
}

func (p *retriedPage) add(results []store.Retried) {
	for _, result := range results {
		if result.Err != nil {
			p.Failures = append(p.Failures, failureView{DLQID: result.ID.String(), Error: showable(result.Err).Message})
			p.refusal = result.Err
			continue
		}
		p.Responses = append(p.Responses, retriedView{result.Message.ID, result.ID.String()})
	}
}

// leave adds dead letters that were left because of an error.
func (p *retriedPage) leave(left []posthaste.DeadLetterID, err error) {
	for _, id := range left {
		p.Failures = append(p.Failures, failureView{DLQID: id.String(), Error: showable(err).Message})
	}
}
