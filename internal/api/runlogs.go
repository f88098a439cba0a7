package api

import (
	"context"
	"net/url"

	"posthaste/internal/runlog"
	"posthaste/internal/selection"
)

// RunLog reads pages of the log of a user's runs, run by run or change by change.
type RunLog interface {
	Runs(ctx context.Context, user string, params url.Values) (runlog.RunPage, error)
	Events(ctx context.Context, user string, params url.Values) (runlog.EventPage, error)
}

// runLogRoutes are the routes of the log of runs.
func (a *api) runLogRoutes() []route {
	return []route{
		{"GET /v2/workflows/logs", read, a.listRunLogs},
		{"GET /v2/workflows/events", read, a.listRunEvents},
	}
}

// listRunLogs answers with a page of runs (contract, workflows 6.3).
func (a *api) listRunLogs(r *request) (answer, error) {
	params, err := r.params()
	if err != nil {
		return answer{}, err
	}
	if _, err := selection.Grouped(params); err != nil { // there is one way to group, and it is taken
		return answer{}, err
	}
	return a.runLogPage(r, params)
}

// listRunEvents answers with a page of changes, or of runs if it is asked to group
// them.
func (a *api) listRunEvents(r *request) (answer, error) {
	params, err := r.params()
	if err != nil {
		return answer{}, err
	}
	grouped, err := selection.Grouped(params)
	if err != nil {
		return answer{}, err
	}
	if grouped {
		return a.runLogPage(r, params)
	}
	var read runlog.EventPage
	room, err := r.readPage(func() (int, error) {
		err := r.turn()(func() (err error) {
			read, err = a.options.RunLog.Events(r.Context(), r.user, params)
			return err
		})
		return read.Size, err
	})
	if err != nil {
		return answer{}, err
	}
	return ok(page{r.turn(), room.give, "events", len(read.Events), func(i int) []byte {
		return encodeJSON(read.Events[i])
	}, read.Cursor}), nil
}

func (a *api) runLogPage(r *request, params url.Values) (answer, error) {
	var read runlog.RunPage
	room, err := r.readPage(func() (int, error) {
		err := r.turn()(func() (err error) {
			read, err = a.options.RunLog.Runs(r.Context(), r.user, params)
			return err
		})
		return read.Size, err
	})
	if err != nil {
		return answer{}, err
	}
	return ok(page{r.turn(), room.give, "runs", len(read.Runs), func(i int) []byte {
		return encodeJSON(read.Runs[i])
	}, read.Cursor}), nil
}
