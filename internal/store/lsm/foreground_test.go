package lsm_test

import (
	"testing"
	"testing/synctest"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// TestPagesGiveWay reads pages while there is foreground work and while there is none: one
// that walks through all entries, one that finds what it returns in the index, and one that
// finds nothing there.
func TestPagesGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := filledLog(t, 2000)
		for name, filter := range map[string]store.EventFilter{
			"all":         {},
			"state":       {States: []posthaste.State{posthaste.StateDelivered}},
			"no message":  {Labels: []string{"label-1"}, Hosts: []string{"host-1.example"}, CallerIPs: []string{"10.0.0.2"}},
			"some labels": {Labels: []string{"label-1", "label-2"}},
		} {
			time.Sleep(time.Second)
			if paused := pauseOf(t, s, filter); paused != 0 {
				t.Errorf("%s: paused for %v for nobody", name, paused)
			}
			s.Foreground().Begin()
			if paused := pauseOf(t, s, filter); paused == 0 {
				t.Errorf("%s: did not pause", name)
			}
			s.Foreground().End()
		}
	})
}

// TestCommitsAreForeground looks at what others are told right after a commit.
func TestCommitsAreForeground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := filledLog(t, 100)
		if paused := pauseOf(t, s, store.EventFilter{}); paused == 0 {
			t.Error("a page does not pause right after a commit")
		}
	})
}

// pauseOf returns how long reading a page took: on a clock that moves only while all wait.
func pauseOf(t *testing.T, s *lsm.Store, filter store.EventFilter) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := store.ReadEvents(t.Context(), s, "ann", store.EventQuery{Filter: filter, High: posthaste.MaxPosition, Limit: 1000}); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}
