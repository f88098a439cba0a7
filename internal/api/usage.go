package api

import (
	"context"
	"time"

	"posthaste/internal/store"
)

// Meter returns the size of a user's stored data.
type Meter interface {
	Usage(ctx context.Context, user string) (store.Usage, error)
}

// usageView is how much is kept of a user.
type usageView struct {
	Log struct {
		keptView
		Days []dayView `json:"days"` // the oldest first
	} `json:"log"`
	DeadLetters keptView `json:"deadLetters"`
	FailedRuns  keptView `json:"failedRuns"`
	Runs        keptView `json:"runs"`
}

// keptView is how much is kept of one kind.
type keptView struct {
	Entries int64 `json:"entries"`
	Oldest  int64 `json:"oldest,omitempty"` // Unix ms
	Bytes   int64 `json:"bytes"`
}

// dayView is how much is kept of one day, in UTC.
type dayView struct {
	Day string `json:"day"`
	keptView
}

func newUsageView(u store.Usage) (view usageView) {
	view.Log.keptView = newKeptView(u.Log)
	view.Log.Days = views(u.Days, func(d store.DayUsage) dayView {
		return dayView{d.Start.Format(time.DateOnly), newKeptView(d.KindUsage)}
	})
	view.DeadLetters = newKeptView(u.DeadLetters)
	view.FailedRuns = newKeptView(u.FailedRuns)
	view.Runs = newKeptView(u.Runs)
	return view
}

func newKeptView(k store.KindUsage) keptView {
	view := keptView{Entries: k.Entries, Bytes: k.Bytes}
	if !k.Oldest.IsZero() {
		view.Oldest = k.Oldest.UnixMilli()
	}
	return view
}

// getUsage shows how much is kept of the caller.
func (a *api) getUsage(r *request) (answer, error) {
	usage, err := a.options.Engine.Usage(r.Context(), r.user)
	return ok(newUsageView(usage)), err
}
