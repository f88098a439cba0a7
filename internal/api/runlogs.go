package api

import (
	"context"
	"net/url"

	"posthaste/internal/api/wire"
	"posthaste/internal/runlog"
)

// RunLog reads the log of runs, by run or by change.
type RunLog interface {
	Runs(ctx context.Context, user string, query *runlog.Query) (runlog.RunPage, error)
	Events(ctx context.Context, user string, query *runlog.Query) (runlog.EventPage, error)
}

// Page limits of both forms.
var (
	runLogCount   = wire.Count{Default: 10, Most: 10}
	runEventCount = wire.Count{Default: 1000, Most: 1000}
)

func (a *api) runLogRoutes() []route {
	return []route{
		{"GET /v2/workflows/logs", read, of((*request).params, a.listRunLogs)},
		{"GET /v2/workflows/events", read, of((*request).params, a.listRunEvents)},
	}
}

// listRunLogs shows a page of runs (contract, workflows 6.3).
func (a *api) listRunLogs(r *request, params url.Values) (answer, error) {
	if _, err := wire.Grouped(params); err != nil { // grouping by run is the only one
		return answer{}, err
	}
	return a.runLogPage(r, params)
}

// listRunEvents shows a page of changes, or of runs if grouped.
func (a *api) listRunEvents(r *request, params url.Values) (answer, error) {
	grouped, err := wire.Grouped(params)
	if err != nil {
		return answer{}, err
	}
	if grouped {
		return a.runLogPage(r, params)
	}
	query, err := wire.RunLog(params, runEventCount)
	if err != nil {
		return answer{}, err
	}
	return r.page("events", func(add func(any)) (cursor string, err error) {
		read, err := a.options.RunLog.Events(r.Context(), r.user, &query)
		for i := range read.Events {
			add(read.Events[i])
		}
		return cursorOf(read.More, read.Next), err
	})
}

func (a *api) runLogPage(r *request, params url.Values) (answer, error) {
	query, err := wire.RunLog(params, runLogCount)
	if err != nil {
		return answer{}, err
	}
	return r.page("runs", func(add func(any)) (cursor string, err error) {
		read, err := a.options.RunLog.Runs(r.Context(), r.user, &query)
		for i := range read.Runs {
			add(read.Runs[i])
		}
		return cursorOf(read.More, read.Next), err
	})
}
