package engine

import (
	"fmt"
	"strconv"
	"time"

	"posthaste"
	"posthaste/internal/backoff"
)

// Limits limit the settings of a publication. Zero: unlimited.
type Limits struct {
	Retries     int
	Delay       time.Duration
	Timeout     time.Duration // of an attempt
	Queues      int           // of a user
	Parallelism int           // of a queue
	Schedules   int           // of a user
}

type Setting string

// Setting is a setting of a message that has a limit.
const (
	SettingRetries Setting = "retries"
	SettingDelay   Setting = "delay" // also of NotBefore
	SettingTimeout Setting = "timeout"
)

// Part is the part of a publication that a setting belongs to.
type Part string

const (
	PartMessage         Part = "" // the message itself
	PartCallback        Part = "callback"
	PartFailureCallback Part = "failure callback"
)

// OverLimit is an Error with CodeLimit about a setting. The API replaces the setting's name by
// the client's.
type OverLimit struct {
	Part    Part
	Setting Setting
	Value   string
	Fault   string // such as "over the limit of 10"
}

func (e *OverLimit) Error() string {
	sentence := fmt.Sprintf("%s %s is %s", e.Setting, e.Value, e.Fault)
	if e.Part == PartMessage {
		return sentence
	}
	return string(e.Part) + " " + sentence
}

// Unwrap returns the posthaste.Error.
func (e *OverLimit) Unwrap() error { return posthaste.Errorf(posthaste.CodeLimit, "%s", e.Error()) }

// Check returns an OverLimit if a setting of the message or of a callback exceeds its limit.
// delay is the time until the first attempt.
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
		return &OverLimit{part, SettingDelay, backoff.FormatDuration(delay), "further ahead than the limit of " + backoff.FormatDuration(l.Delay)}
	}
	if l.Timeout > 0 && s.Timeout > l.Timeout {
		return &OverLimit{part, SettingTimeout, backoff.FormatDuration(s.Timeout), "over the limit of " + backoff.FormatDuration(l.Timeout)}
	}
	return nil
}

// WithDefaults sets Retries to the limit if it is unset and the default exceeds the limit.
func (l Limits) WithDefaults(s posthaste.Settings) posthaste.Settings {
	if s.Retries == nil && l.Retries > 0 && l.Retries < posthaste.DefaultRetries {
		s.Retries = &l.Retries
	}
	return s
}

// CheckOverrides is Check for overrides alone.
func (l Limits) CheckOverrides(o posthaste.Overrides, now time.Time) error {
	return l.Check(Publication{Settings: o.Settings}, o.StartAt(now).Sub(now))
}
