package backoff_test

import (
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/backoff"
)

// Contract, messages 3.
func TestDefault(t *testing.T) {
	tests := []struct {
		retry int
		want  time.Duration
	}{
		{1, 12182 * time.Millisecond},
		{2, 148413 * time.Millisecond},
		{3, 1808042 * time.Millisecond},
		{4, 22026466 * time.Millisecond},
		{5, 24 * time.Hour},
		{6, 24 * time.Hour},
		{1_000_000, 24 * time.Hour},
	}
	for _, test := range tests {
		if got := backoff.Default(test.retry).Round(time.Millisecond); got != test.want {
			t.Errorf("Default(%d) = %v, want %v", test.retry, got, test.want)
		}
	}
}

// Contract, messages 3 and U-53.
func TestNext(t *testing.T) {
	asked := posthaste.Outcome{RetryAfter: 7 * time.Second, HasRetryAfter: true}
	atOnce := posthaste.Outcome{HasRetryAfter: true}
	silent := posthaste.Outcome{}
	tests := []struct {
		name       string
		retryDelay string
		retried    int
		outcome    posthaste.Outcome
		want       time.Duration
	}{
		{"default before the first retry", "", 0, silent, backoff.Default(1)},
		{"default before the third retry", "", 2, silent, backoff.Default(3)},
		{"expression before the first retry", "2000 * retried", 0, silent, 0},
		{"expression before the third retry", "2000 * retried", 2, silent, 4 * time.Second},
		{"the destination beats the expression", "1000", 1, asked, 7 * time.Second},
		{"the destination beats the default", "", 1, asked, 7 * time.Second},
		{"the destination may say at once", "1000", 1, atOnce, 0},
		{"expression without a finite value", "1 / (retried - 1)", 1, silent, backoff.Default(2)},
		{"expression that does not parse", "pow(", 1, silent, backoff.Default(2)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := &posthaste.Message{Settings: posthaste.Settings{RetryDelay: test.retryDelay}}
			if got := backoff.Next(m, test.retried, test.outcome); got != test.want {
				t.Errorf("Next = %v, want %v", got, test.want)
			}
		})
	}
}

func BenchmarkNext(b *testing.B) {
	m := &posthaste.Message{Settings: posthaste.Settings{RetryDelay: "max(1000, pow(2, retried) * 100)"}}
	b.ReportAllocs()
	for b.Loop() {
		backoff.Next(m, 2, posthaste.Outcome{})
	}
}
