package api

import (
	"time"

	"posthaste"
	"posthaste/internal/cron"
	"posthaste/internal/selection"
)

// tickCount is how many ticks of an expression one call tells.
var tickCount = selection.Count{Default: 5, Most: 100}

// ticksView tells when a cron expression ticks next: what a schedule with it would do.
type ticksView struct {
	Cron  string  `json:"cron"`
	Zone  string  `json:"zone"`  // of the IANA database
	Ticks []int64 `json:"ticks"` // Unix ms, the next one first
}

// getTicks tells the next ticks of the expression that is given, which no schedule
// needs to have.
func (a *api) getTicks(r *request) (answer, error) {
	params, err := r.params()
	if err != nil {
		return answer{}, err
	}
	if err := selection.CheckNames(params, "cron", "count"); err != nil {
		return answer{}, err
	}
	count, err := tickCount.Read(params)
	if err != nil {
		return answer{}, err
	}
	text, err := selection.One(params, "cron")
	if err != nil {
		return answer{}, err
	}
	if text == "" {
		return answer{}, posthaste.Invalidf("cron is missing: a cron expression such as */5 * * * * is accepted")
	}
	schedule, err := cron.Parse(text)
	if err != nil {
		return answer{}, posthaste.Invalidf("cron %v", err)
	}
	return ok(newTicksView(text, schedule, time.Now(), count)), nil
}

// newTicksView shows fewer ticks than asked for where an expression has no more within
// the years that are looked at.
func newTicksView(text string, schedule cron.Schedule, now time.Time, count int) ticksView {
	view := ticksView{Cron: text, Ticks: make([]int64, 0, count)}
	at := schedule.Next(now)
	view.Zone = at.Location().String()
	for ; !at.IsZero() && len(view.Ticks) < count; at = schedule.Next(at) {
		view.Ticks = append(view.Ticks, at.UnixMilli())
	}
	return view
}
