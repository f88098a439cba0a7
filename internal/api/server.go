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
