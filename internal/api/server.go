package api

import (
	"context"
	"net/http"
	"time"

	"posthaste/internal/store"
)

// Meter returns usage.
type Meter interface {
	Usage(ctx context.Context, user string) (store.Usage, error)
}

// usageView is a user's usage.
type usageView struct {
	Log struct {
		kindView
		Days []dayView `json:"days"` // oldest first
	} `json:"log"`
	DeadLetters kindView `json:"deadLetters"`
	FailedRuns  kindView `json:"failedRuns"`
	Runs        kindView `json:"runs"`
}

type kindView struct {
	Entries int64 `json:"entries"`
	Oldest  int64 `json:"oldest,omitempty"` // Unix ms
	Bytes   int64 `json:"bytes"`
}

// dayView is the usage of a day in UTC.
type dayView struct {
	Day string `json:"day"`
	kindView
}

func newUsageView(u store.Usage) (view usageView) {
	view.Log.kindView = newKindView(u.Log)
	view.Log.Days = views(u.Days, func(d store.DayUsage) dayView {
		return dayView{d.Start.Format(time.DateOnly), newKindView(d.KindUsage)}
	})
	view.DeadLetters = newKindView(u.DeadLetters)
	view.FailedRuns = newKindView(u.FailedRuns)
	view.Runs = newKindView(u.Runs)
	return view
}

func newKindView(k store.KindUsage) kindView {
	view := kindView{Entries: k.Entries, Bytes: k.Bytes}
	if !k.Oldest.IsZero() {
		view.Oldest = k.Oldest.UnixMilli()
	}
	return view
}

func (a *api) getUsage(r *request) (answer, error) {
	usage, err := a.options.Engine.Usage(r.Context(), r.user)
	return ok(newUsageView(usage)), err
}

// About describes the server to a user. A limit of 0 is none.
type About struct {
	Version   string    `json:"version"`
	User      string    `json:"user"`
	Retention Retention `json:"retention"`
	Limits    Limits    `json:"limits"`
}

// Retention is how long what has ended is kept, in milliseconds, and how much of it, in bytes; 0
// is for ever, and any amount.
type Retention struct {
	Log         int64 `json:"log"`
	DeadLetters int64 `json:"deadLetters"`
	Runs        int64 `json:"runs"`
	Bytes       int64 `json:"bytes"`
}

// Limits are what publishers can ask for: sizes in bytes, times in milliseconds.
type Limits struct {
	Body        int64 `json:"body"`
	Batch       int64 `json:"batch"`
	Response    int64 `json:"response"` // that is kept
	Retries     int64 `json:"retries"`
	Delay       int64 `json:"delay"`
	Timeout     int64 `json:"timeout"`
	Queues      int64 `json:"queues"`
	Parallelism int64 `json:"parallelism"` // of a queue
	Schedules   int64 `json:"schedules"`
}

func (a *api) getServer(r *request) (answer, error) {
	about := a.options.About(r.user)
	about.User = r.user
	about.Limits.Body, about.Limits.Batch = a.options.MaxBody, a.options.MaxBatch
	return ok(about), nil
}

// getKeys shows the caller's signing keys (contract, messages 2.12).
func (a *api) getKeys(r *request) (answer, error) {
	pair, err := a.options.Keyring.Keys(r.Context(), r.user)
	return ok(pair), err
}

// rotateKeys makes the next key the current one.
func (a *api) rotateKeys(r *request) (answer, error) {
	pair, err := a.options.Keyring.Rotate(r.Context(), r.user)
	return ok(pair), err
}

type readinessView struct {
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"` // why not
}

// getReadiness needs no token, because one SDK asks before it has one.
func (a *api) getReadiness(*request) (answer, error) {
	if err := a.options.Ready(); err != nil {
		return answer{http.StatusServiceUnavailable, readinessView{Error: err.Error()}}, nil
	}
	return ok(readinessView{Ready: true}), nil
}

type livenessView struct {
	Live bool `json:"live"`
}

// getLiveness says that the process responds, ready or not; one SDK's tests need it.
func (a *api) getLiveness(*request) (answer, error) { return ok(livenessView{Live: true}), nil }
