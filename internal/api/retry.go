package api

import (
	"net/http"

	"posthaste"
	"posthaste/internal/store"
)

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
	s, err := r.sweep(a.deadLetterDLQ(), dlqCount)
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
		return a.inBackground(r, posthaste.ActionRetry, &s, overrides)
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
	selected, err := s.page(r)
	if err != nil {
		return page, err
	}
	if s.ids != nil { // all must exist (contract, U-43)
		_, unknown, err := s.known(r, s.ids)
		if err != nil {
			return page, err
		}
		if id, isID := posthaste.ParseDeadLetterID(unknown); isID {
			return page, s.missing(r, id)
		}
		if unknown != "" {
			return page, s.unknown(unknown)
		}
	}
	page, left, err := a.retry(r, selected.ids, s.ids != nil, o)
	page.Cursor = selected.cursor
	switch {
	case len(left) == 0, err != nil && len(page.Responses) == 0:
		return page, err
	case err != nil:
		a.logFailure(r.Request, err)
	}
	if s.ids != nil {
		page.leave(left, err)
	} else {
		page.Cursor = selected.after(left)
	}
	return page, nil
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
