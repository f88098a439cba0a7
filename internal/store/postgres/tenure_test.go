package postgres

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTenure(t *testing.T) {
	for name, c := range map[string]struct {
		renewals []time.Duration // when the node said that it lives, and was heard at once
		want     time.Duration   // when it lapses
	}{
		"from its first word":            {nil, ownTime},
		"from its last word":             {[]time.Duration{3 * time.Second, 6 * time.Second}, 6*time.Second + ownTime},
		"a word that comes too late":     {[]time.Duration{ownTime}, ownTime},
		"words that overtake each other": {[]time.Duration{5 * time.Second, 4 * time.Second}, 5*time.Second + ownTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, told := time.Now(), 0
				tenure := newTenure(1, begun, func() { told++ })
				for _, at := range c.renewals {
					time.Sleep(time.Until(begun.Add(at)))
					tenure.extend(begun.Add(at))
				}
				<-tenure.held.Done()
				if got := time.Since(begun); got != c.want {
					t.Errorf("it lapses after %v, want %v", got, c.want)
				}
				if tenure.extend(time.Now()) || tenure.lives() {
					t.Error("it comes back")
				}
				tenure.end()
				if told != 1 {
					t.Errorf("that was told %d times, want once", told)
				}
			})
		})
	}
}

// A process that stood still hears an old answer when it goes on, before its timers run.
func TestAnAnswerThatWasReadTooLate(t *testing.T) {
	said := time.Now().Add(-leaseTime)
	if newTenure(1, said, func() {}).lives() {
		t.Error("a node lives that spoke a lease ago")
	}
	tenure := newTenure(1, time.Now(), func() {})
	tenure.until = said // as if it had stood still, and the timer not run yet
	if tenure.extend(said) || tenure.held.Err() == nil {
		t.Error("a node lives on by an answer that is a lease old")
	}
}
