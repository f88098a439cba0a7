package api

import (
	"fmt"
	"net/url"
	"time"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/eventlog"
)

// statsView is how many entries of the log there were.
type statsView struct {
	Bucket   string            `json:"bucket"`
	FromDate int64             `json:"fromDate"` // Unix ms, of the first bucket
	ToDate   int64             `json:"toDate"`   // Unix ms, the last one of the last bucket
	Total    summaryView       `json:"total"`
	Buckets  []bucketView      `json:"buckets"`
	Hosts    []destinationView `json:"hosts"`
	Paths    []destinationView `json:"paths"`
}

type bucketView struct {
	Time int64 `json:"time"` // when it begins, Unix ms
	summaryView
}

type destinationView struct {
	Host string  `json:"host,omitempty"`
	Path *string `json:"path,omitempty"` // "" of a URL without one
	Rest bool    `json:"rest,omitempty"` // everything not listed by itself
	summaryView
}

type summaryView struct {
	States   map[posthaste.State]int64 `json:"states"`
	Statuses map[string]int64          `json:"statuses"` // of attempts, by class
	Latency  *latencyView              `json:"latency,omitempty"`
}

// latencyView is how long attempts took, in milliseconds.
type latencyView struct {
	Count int64 `json:"count"`
	P50   int64 `json:"p50"`
	P90   int64 `json:"p90"`
	P99   int64 `json:"p99"`
}

func newSummaryView(s *eventlog.Summary) summaryView {
	view := summaryView{States: s.States, Statuses: map[string]int64{}}
	if view.States == nil {
		view.States = map[posthaste.State]int64{}
	}
	for class, n := range s.Statuses {
		switch {
		case n == 0:
		case class == 0:
			view.Statuses["none"] = n
		default:
			view.Statuses[fmt.Sprintf("%dxx", class)] = n
		}
	}
	if n := s.Timed(); n > 0 {
		view.Latency = &latencyView{n, s.Latency(0.5).Milliseconds(), s.Latency(0.9).Milliseconds(), s.Latency(0.99).Milliseconds()}
	}
	return view
}

// getStats counts the log in buckets.
func (a *api) getStats(r *request, params url.Values) (answer, error) {
	query, bucket, err := wire.Stats(params, time.Now())
	if err != nil {
		return answer{}, err
	}
	stats, err := a.options.Log.Stats(r.Context(), r.user, &query)
	if err != nil {
		return answer{}, err
	}
	view := statsView{
		Bucket: bucket, FromDate: query.From.UnixMilli(), ToDate: query.Until.UnixMilli() - 1,
		Total:   newSummaryView(&stats.Total),
		Buckets: make([]bucketView, len(stats.Buckets)),
		Hosts:   views(stats.Hosts, func(d eventlog.Destination) destinationView { return newDestinationView(&d, false) }),
		Paths:   views(stats.Paths, func(d eventlog.Destination) destinationView { return newDestinationView(&d, true) }),
	}
	for i := range stats.Buckets {
		at := query.From.Add(time.Duration(i) * query.Bucket)
		view.Buckets[i] = bucketView{at.UnixMilli(), newSummaryView(&stats.Buckets[i])}
	}
	return ok(view), nil
}

func newDestinationView(d *eventlog.Destination, withPath bool) destinationView {
	view := destinationView{Host: d.Host, Rest: d.Rest, summaryView: newSummaryView(&d.Summary)}
	if withPath && !d.Rest {
		view.Path = &d.Path
	}
	return view
}
