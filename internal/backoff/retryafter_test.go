package backoff_test

import (
	"net/http"
	"testing"
	"time"

	"posthaste/internal/backoff"
)

var now = time.Date(2025, time.March, 14, 9, 26, 53, 0, time.UTC)

// Contract, messages 3.
func TestRetryAfterValues(t *testing.T) {
	const none = -1
	tests := []struct {
		name  string
		value string
		want  time.Duration
	}{
		{"seconds", "30", 30 * time.Second},
		{"fraction of seconds", "1.5", 1500 * time.Millisecond},
		{"zero is at once", "0", 0},
		{"negative says nothing", "-5", none},
		{"negative fraction says nothing", "-0.5", none},
		{"negative zero is at once", "-0", 0},
		{"duration", "6m5s", 365 * time.Second},
		{"milliseconds", "250ms", 250 * time.Millisecond},
		{"microseconds", "12us", 12 * time.Microsecond},
		{"microseconds, micro sign", "12µs", 12 * time.Microsecond},
		{"nanoseconds", "7ns", 7},
		{"zero duration", "0s", 0},
		{"negative duration says nothing", "-1m", none},
		{"more below zero than a duration holds", "-99999999999999999999", none},
		{"date", "Fri, 14 Mar 2025 09:27:53 GMT", time.Minute},
		{"date of RFC 850", "Friday, 14-Mar-25 09:27:53 GMT", time.Minute},
		{"date of asctime", "Fri Mar 14 09:27:53 2025", time.Minute},
		{"past date", "Fri, 14 Mar 2025 09:00:00 GMT", 0},
		{"past date of another age", "Thu, 01 Jan 1970 00:00:00 GMT", 0},
		{"a day of seconds", "86400", 24 * time.Hour},
		{"a day of hours", "24h", 24 * time.Hour},
		{"a day ahead", "Sat, 15 Mar 2025 09:26:53 GMT", 24 * time.Hour},
		{"more than a day of seconds", "86401", none},
		{"more than a day of hours", "24h0m1s", none},
		{"more than a day ahead", "Sat, 15 Mar 2025 09:26:54 GMT", none},
		{"Unix seconds", "1741944473", none},
		{"more than a duration holds", "99999999999999999999", none},
		{"empty", "", none},
		{"word", "soon", none},
		{"unit of control headers", "1d", none},
		{"sign within", "1-2", none},
		{"point alone", ".", none},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, ok := backoff.RetryAfter(http.Header{"Retry-After": {test.value}}, now)
			if !ok {
				got = none
			}
			if got != test.want {
				t.Errorf("RetryAfter %q = %v, want %v", test.value, got, test.want)
			}
		})
	}
}

// Contract, U-53.
func TestRetryAfterOrder(t *testing.T) {
	names := []string{"Retry-After", "X-RateLimit-Reset", "X-RateLimit-Reset-Requests", "X-RateLimit-Reset-Tokens"}
	useless := []string{"-43", "soon", "48h", ""}
	for first, name := range names {
		t.Run(name, func(t *testing.T) {
			header := http.Header{}
			for i, other := range names {
				switch {
				case i < first:
					header.Set(other, useless[i%len(useless)])
				case i == first:
					header.Set(other, "10")
				default:
					header.Set(other, "20")
				}
			}
			if got, ok := backoff.RetryAfter(header, now); !ok || got != 10*time.Second {
				t.Errorf("RetryAfter = %v, %v; want 10s of %s", got, ok, name)
			}
		})
	}
}

func TestRetryAfterAbsent(t *testing.T) {
	header := http.Header{"X-RateLimit-Remaining": {"0"}, "Date": {"Fri, 14 Mar 2025 09:27:53 GMT"}}
	if got, ok := backoff.RetryAfter(header, now); ok {
		t.Errorf("RetryAfter = %v, want none", got)
	}
}

// A date is measured by the clock of the destination where the response shows it (contract,
// U-53: a date that has passed means at once).
func TestRetryAfterDateByTheClockOfTheDestination(t *testing.T) {
	tests := []struct {
		name       string
		sent, date string
		want       time.Duration
	}{
		{"a minute behind ours", "Fri, 14 Mar 2025 09:25:53 GMT", "Fri, 14 Mar 2025 09:26:23 GMT", 30 * time.Second},
		{"a year ahead of ours", "Sat, 14 Mar 2026 09:26:53 GMT", "Sat, 14 Mar 2026 09:27:53 GMT", time.Minute},
		{"passed there", "Fri, 14 Mar 2025 09:28:53 GMT", "Fri, 14 Mar 2025 09:27:53 GMT", 0},
		{"no clock shown", "", "Fri, 14 Mar 2025 09:27:53 GMT", time.Minute},
		{"no date shown", "today", "Fri, 14 Mar 2025 09:27:53 GMT", time.Minute},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			header := http.Header{"Date": {test.sent}, "Retry-After": {test.date}}
			if got, ok := backoff.RetryAfter(header, now); !ok || got != test.want {
				t.Errorf("RetryAfter = %v, %v; want %v", got, ok, test.want)
			}
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"30", "-1.5", "6m5s", "Fri, 14 Mar 2025 09:27:53 GMT", "1e9", "+-.", "inf"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		wait, ok := backoff.RetryAfter(http.Header{"Retry-After": {value}}, now)
		if wait < 0 || wait > 24*time.Hour || !ok && wait != 0 {
			t.Fatalf("RetryAfter %q = %v, %v", value, wait, ok)
		}
	})
}
