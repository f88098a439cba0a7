package lsm_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/store"
)

// TestWhatWaitsIsCountedAgainAfterReopening has messages come and go while those of before are
// counted.
func TestWhatWaitsIsCountedAgainAfterReopening(t *testing.T) {
	fs := vfs.NewMem()
	first := open(t, fs)
	now := noon.Add(time.Minute)
	accept := func(s *ruled, number int, notBefore time.Time) {
		m := message(t, fmt.Sprintf("http://%d.example/", number%7), noon.Add(time.Duration(number)*time.Millisecond)) // its id has its time
		m.NotBefore = notBefore
		if _, err := s.Accept(t.Context(), now, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
			t.Fatal(err)
		}
	}
	for number := range 50 {
		accept(first, number, noon.Add(time.Duration(number/40)*time.Hour))
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(t, fs)
	claims, _, err := second.Claim(t.Context(), now, 7)
	if err != nil || len(claims) < 5 {
		t.Fatalf("Claim: %d claims, %v", len(claims), err)
	}
	for _, claim := range claims[:5] {
		if _, err := second.Settle(t.Context(), now, store.Delivered(claim)); err != nil {
			t.Fatal(err)
		}
	}
	accept(second, 50, noon)
	want := map[store.Waiting]int{{State: posthaste.StateCreated, Hold: store.HoldTurn}: 50 - len(claims) + 1}
	stats, err := second.Stats(t.Context(), now)
	for ; err == nil && stats.Waiting == nil; stats, err = second.Stats(t.Context(), now) {
		time.Sleep(time.Millisecond)
	}
	if diff := cmp.Diff(want, stats.Waiting); err != nil || diff != "" {
		t.Errorf("%v, waiting (-want +got):\n%s", err, diff)
	}
}
