package api

import (
	"net/http"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/selection"
	"posthaste/internal/store"
)

// sweep is a call on many dead letters: those it lists, or else a page of those
// that match its filters. Pages go from the oldest to the newest unless the call
// says otherwise, and end at what was the newest when the first of them was asked
// for: what fails again meanwhile is not met twice.
type sweep struct {
	bulkCall
	query store.DeadLetterQuery
	begun bool // by an earlier call; the query ends where that said
}

func (r *request) sweep() (s sweep, err error) {
	if s.bulkCall, err = r.bulkCall("dlqIds"); err != nil {
		return s, err
	}
	if s.query, s.begun, err = selection.Sweep(s.params); err != nil {
		return s, err
	}
	s.query.Limit, err = deadLetterCount.Read(s.params)
	return s, err
}

// nextPage returns the dead letters of a page, and the cursor of the next one, ""
// after the last. The sweep knows its end then.
func (a *api) nextPage(r *request, s *sweep) (ids []posthaste.DeadLetterID, cursor string, err error) {
	if !s.begun {
		newest, err := a.newestDeadLetter(r)
		if err != nil {
			return nil, "", err
		}
		s.query.High = min(s.query.High, posthaste.Position(newest))
	}
	s.query.Bare = true
	page, err := a.options.Engine.DeadLetters(r.Context(), r.user, s.query)
	if err != nil {
		return nil, "", err
	}
	if page.More {
		cursor = selection.SweepCursor(page.Next, s.query.High)
	}
	return page.IDs, cursor, nil
}

// from returns the cursor of a page that begins with the first of the ids.
func (s *sweep) from(ids []posthaste.DeadLetterID) string {
	return selection.SweepCursor(posthaste.Position(ids[0]), s.query.High)
}

// newestDeadLetter returns the id of the latest one, below all ids if there is
// none.
func (a *api) newestDeadLetter(r *request) (posthaste.DeadLetterID, error) {
	page, err := a.options.Engine.DeadLetters(r.Context(), r.user,
		store.DeadLetterQuery{High: posthaste.MaxPosition, Limit: 1, Bare: true})
	if err != nil || len(page.IDs) == 0 {
		return 0, err
	}
	return page.IDs[0], nil
}

// deleteDeadLetters removes dead letters. Those that are listed and not there do
// not count.
func (a *api) deleteDeadLetters(r *request) (answer, error) {
	s, err := r.sweep()
	if err != nil {
		return answer{}, err
	}
	if s.async {
		return a.startAction(r, posthaste.ActionDelete, s.params, nil)
	}
	var page deletedPage
	err = r.withReservation(func() (err error) {
		page, err = a.deletePage(r, &s)
		return err
	})
	return ok(page), err
}

// deletedPage is the answer to a call that removes many dead letters.
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

// inCommits does something with dead letters, a bounded number in one commit, of which do
// returns those that it has come to. Unless all are to be done it ends when that takes long.
// It returns the ids that are left, after an error those that begin with what may have been
// done.
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

// parseDeadLetterIDs passes over texts that are no ids: they name no dead letter.
func parseDeadLetterIDs(texts []string) []posthaste.DeadLetterID {
	ids := make([]posthaste.DeadLetterID, 0, len(texts))
	for _, text := range texts {
		if id, ok := posthaste.ParseDeadLetterID(text); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// retriedView tells which message a dead letter became.
type retriedView struct {
	MessageID posthaste.MessageID `json:"messageId"`
	DLQID     string              `json:"dlqId"`
}

// retriedPage is the answer to a call that retries many dead letters.
type retriedPage struct {
	Responses []retriedView `json:"responses"`
	Cursor    string        `json:"cursor,omitempty"`
	Failures  []failureView `json:"failures,omitempty"` // dead letters that stay, and why

	refusal error // of the last of those
}

// noneRetried returns why no dead letter was retried, nil if one was or there was none.
func (p *retriedPage) noneRetried() error {
	if len(p.Responses) > 0 {
		return nil
	}
	return p.refusal
}

// retryDeadLetters publishes dead letters again as new messages. Control headers
// of the request override what they were published with. What every retry would refuse is
// refused at once; it is an error, too, if they make all of a page unacceptable, and no
// other one follows.
func (a *api) retryDeadLetters(r *request) (answer, error) {
	s, err := r.sweep()
	if err != nil {
		return answer{}, err
	}
	controls, overrides, err := a.decodeOverrides(r)
	if err != nil {
		return answer{}, err
	}
	if err := a.options.Engine.CheckOverrides(overrides); err != nil {
		return answer{}, err
	}
	if s.async {
		return a.startAction(r, posthaste.ActionRetry, s.params, controls.header())
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

// retryPage retries what is listed, or a page of what matches, which ends early when that
// takes long. When it breaks off after some were retried it is answered what they became.
// What is left begins the next page, which fails if that goes on; of a list, which has no
// pages, it is told.
func (a *api) retryPage(r *request, s *sweep, o engine.Overrides) (page retriedPage, err error) {
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

// knownDeadLetters returns an Error with CodeNotFound unless all of the dead
// letters are there (contract, U-43).
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

// retry makes messages of the dead letters that are there, as inCommits does. One that its
// overrides make unacceptable stays where it is.
func (a *api) retry(r *request, ids []posthaste.DeadLetterID, all bool, o engine.Overrides) (page retriedPage, left []posthaste.DeadLetterID, err error) {
	page.Responses = []retriedView{}
	left, err = inCommits(ids, all, func(some []posthaste.DeadLetterID) ([]posthaste.DeadLetterID, error) {
		results, err := a.options.Engine.RetryDeadLetters(r.Context(), r.user, some, o)
		page.add(results)
		return store.RetriedIDs(results), err
	})
	return page, left, err
}

// add tells of the results.
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

// leave tells of dead letters that were left because of an error that is not theirs.
func (p *retriedPage) leave(left []posthaste.DeadLetterID, err error) {
	for _, id := range left {
		p.Failures = append(p.Failures, failureView{DLQID: id.String(), Error: showable(err).Message})
	}
}
