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

// Part is one of the messages that a publication asks for.
type Part string

// The parts of a publication.
const (
	PartMessage         Part = "" // the one that it is about
	PartCallback        Part = "callback"
	PartFailureCallback Part = "failure callback"
)

// OverLimit is an Error with CodeLimit about a setting of a message. Its sentence
// has our name of the setting; who knows what the publisher called it can say so.
type OverLimit struct {
	Part    Part // whose setting it is
	Setting Setting
	Value   string
	Fault   string // what is wrong with it, such as "over the limit of 10"
}

// Error returns the sentence.
func (e *OverLimit) Error() string {
	sentence := fmt.Sprintf("%s %s is %s", e.Setting, e.Value, e.Fault)
	if e.Part == PartMessage {
		return sentence
	}
	return string(e.Part) + " " + sentence
}

// Unwrap returns the Error.
func (e *OverLimit) Unwrap() error { return posthaste.Errorf(posthaste.CodeLimit, "%s", e.Error()) }

// Check returns an OverLimit for a setting above its limit that was given, to the message
// or to a callback. The delay is the time until the first attempt.
func (l Limits) Check(p Publication, delay time.Duration) error {
	if err := l.check(PartMessage, p.Settings, delay); err != nil {
		return err
	}
	if c := p.Callback; c != nil {
		if err := l.check(PartCallback, c.Settings, c.Delay); err != nil {
			return err
		}
	}
	if c := p.FailureCallback; c != nil {
		return l.check(PartFailureCallback, c.Settings, c.Delay)
	}
	return nil
}

func (l Limits) check(part Part, s posthaste.Settings, delay time.Duration) error {
	if l.Retries > 0 && s.Retries != nil && *s.Retries > l.Retries {
		return &OverLimit{part, SettingRetries, strconv.Itoa(*s.Retries), fmt.Sprintf("over the limit of %d", l.Retries)}
	}
	if l.Delay > 0 && delay > l.Delay {
		return &OverLimit{part, SettingDelay, delay.String(), fmt.Sprintf("further ahead than the limit of %s", l.Delay)}
	}
	if l.Timeout > 0 && s.Timeout > l.Timeout {
		return &OverLimit{part, SettingTimeout, s.Timeout.String(), fmt.Sprintf("over the limit of %s", l.Timeout)}
	}
	return nil
}

// WithDefaults returns settings that say how many retries there are, if they do not and
// the default is above the limit: as many as the limit allows.
func (l Limits) WithDefaults(s posthaste.Settings) posthaste.Settings {
	if s.Retries == nil && l.Retries > 0 && l.Retries < posthaste.DefaultRetries {
		s.Retries = &l.Retries
	}
	return s
}

// CheckOverrides is Check for what is given alone, whatever it will be applied to.
func (l Limits) CheckOverrides(o Overrides, now time.Time) error {
	return l.Check(Publication{Settings: o.Settings}, o.StartAt(now).Sub(now))
}
