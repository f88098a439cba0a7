package engine

import (
	"fmt"
	"strconv"
	"time"

	"posthaste"
)

// Limits bound what a publisher may ask for. Zero means no bound.
type Limits struct {
	Retries     int
	Delay       time.Duration
	Timeout     time.Duration // of an attempt
	Queues      int           // of a user
	Parallelism int           // of a queue
	Schedules   int           // of a user
}

// Setting names a setting that has a limit.
type Setting string

// The settings of a message that have limits.
const (
	SettingRetries Setting = "retries"
	SettingDelay   Setting = "delay" // also that until an absolute time
	SettingTimeout Setting = "timeout"
)

// OverLimit is an Error with CodeLimit about a setting of a message. Its sentence
// has our name of the setting; who knows what the publisher called it can say so.
type OverLimit struct {
	Setting Setting
	Value   string
	Fault   string // what is wrong with it, such as "over the limit of 10"
}

// Error returns the sentence.
func (e *OverLimit) Error() string {
	return fmt.Sprintf("%s %s is %s", e.Setting, e.Value, e.Fault)
}

// Unwrap returns the Error.
func (e *OverLimit) Unwrap() error { return posthaste.Errorf(posthaste.CodeLimit, "%s", e.Error()) }

// Check returns an OverLimit for a setting above its limit. The delay is the time
// until the first attempt.
func (l Limits) Check(p Publication, delay time.Duration) error {
	if retries := p.MaxRetries(); l.Retries > 0 && retries > l.Retries {
		return &OverLimit{SettingRetries, strconv.Itoa(retries), fmt.Sprintf("over the limit of %d", l.Retries)}
	}
	if l.Delay > 0 && delay > l.Delay {
		return &OverLimit{SettingDelay, delay.String(), fmt.Sprintf("further ahead than the limit of %s", l.Delay)}
	}
	if l.Timeout > 0 && p.Timeout > l.Timeout {
		return &OverLimit{SettingTimeout, p.Timeout.String(), fmt.Sprintf("over the limit of %s", l.Timeout)}
	}
	return nil
}

// CheckOverrides is Check for what is given alone, whatever it will be applied to.
func (l Limits) CheckOverrides(o Overrides, now time.Time) error {
	if o.Retries == nil {
		o.Retries = new(int)
	}
	return l.Check(Publication{Settings: o.Settings}, o.StartAt(now).Sub(now))
}
