package posthaste

import "time"

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
	CallerIP    string        // of whoever made the schedule
	CreatedAt   time.Time
	Paused      bool

	LastAt       time.Time   // of the last tick; zero before the first
	NextAt       time.Time   // of the next tick; zero when there is none
	LastMessages []MessageID // made by the last tick
	Error        string      // why the last tick made no message

	Settings
}
