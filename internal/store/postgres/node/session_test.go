package node

import (
	"testing"
	"testing/synctest"
	"time"
)

const sessionTime = DefaultLease - spare

func TestSession(t *testing.T) {
	for name, c := range map[string]struct {
		renewals []time.Duration // when the node said that it lives, and was heard at once
		want     time.Duration   // when it expires
	}{
		"from its first word":            {nil, sessionTime},
		"from its last word":             {[]time.Duration{3 * time.Second, 6 * time.Second}, 6*time.Second + sessionTime},
		"a word that comes too late":     {[]time.Duration{sessionTime}, sessionTime},
		"words that overtake each other": {[]time.Duration{5 * time.Second, 4 * time.Second}, 5*time.Second + sessionTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, told := time.Now(), 0
				session := newSession(1, begun, DefaultLease, func() { told++ })
				for _, at := range c.renewals {
					time.Sleep(time.Until(begun.Add(at)))
					session.renew(begun.Add(at))
				}
				<-session.Held.Done()
				if got := time.Since(begun); got != c.want {
					t.Errorf("it expires after %v, want %v", got, c.want)
				}
				if session.renew(time.Now()) || session.Alive() {
					t.Error("it comes back")
				}
				session.expire()
				if told != 1 {
					t.Errorf("that was told %d times, want once", told)
				}
			})
		})
	}
}

// A process that stood still hears an old answer when it goes on, before its timers run.
func TestAnAnswerThatWasReadTooLate(t *testing.T) {
	said := time.Now().Add(-DefaultLease)
	if newSession(1, said, DefaultLease, func() {}).Alive() {
		t.Error("a node lives that spoke a lease ago")
	}
	session := newSession(1, time.Now(), DefaultLease, func() {})
	session.expiresAt = said // as if it had stood still, and the timer not run yet
	if session.renew(said) || session.Held.Err() == nil {
		t.Error("a node lives on by an answer that is a lease old")
	}
}
