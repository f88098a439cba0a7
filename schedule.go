package posthaste

import (
	"reflect"
	"time"
)

// Schedule publishes the same thing again and again, at the times of a cron
// expression.
type Schedule struct {
	ID          string
	User        string
	Cron        string // as it was given, outer blanks trimmed
	Destination string // a URL, or the name of a URL group
	Queue       string // its messages go through this queue, if any
	Body        []byte
	Delay       time.Duration // postpones each message, not the tick
	CallerIP    string        // of the caller who created the schedule
	CreatedAt   time.Time
	Paused      bool

	LastAt       time.Time   // of the last tick; zero before the first
	NextAt       time.Time   // of the next tick; zero when there is none
	LastMessages []MessageID // made by the last tick
	Error        string      // why the last tick made no message

	Settings
}

// Equal reports whether two schedules have the same content. Times are compared by the
// millisecond, as precisely as they are stored.
func (s *Schedule) Equal(other *Schedule) bool {
	a, b := *s, *other
	for _, t := range []struct{ a, b *time.Time }{
		{&a.CreatedAt, &b.CreatedAt}, {&a.LastAt, &b.LastAt}, {&a.NextAt, &b.NextAt},
	} {
		if t.a.UnixMilli() != t.b.UnixMilli() {
			return false
		}
		*t.a, *t.b = time.Time{}, time.Time{}
	}
	return reflect.DeepEqual(a, b)
}
