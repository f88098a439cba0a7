package main

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a side that notes its name each time it is asked.
func recorder(name string, calls *[]string, times ...time.Duration) asker {
	n := 0
	return func() (time.Duration, error) {
		*calls = append(*calls, name)
		took := times[min(n, len(times)-1)]
		n++
		time.Sleep(took)
		return took, nil
	}
}

func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		slow := recorder("slow", &calls, time.Second, 70*time.Millisecond, 10*time.Millisecond)
		fast := recorder("fast", &calls, 90*time.Millisecond)
		medians, asked, err := briefly.take(slow, fast)
		if err != nil || asked != 2 {
			t.Fatalf("asked = %d, %v, want 2: the first, and one that counts", asked, err)
		}
		if want := []time.Duration{70 * time.Millisecond, 90 * time.Millisecond}; !slices.Equal(medians, want) {
			t.Errorf("medians = %v, want %v", medians, want)
		}
		if want := []string{"slow", "fast", "fast", "slow"}; !slices.Equal(calls, want) {
			t.Errorf("asked in the order %v, want %v", calls, want)
		}
	})
}

func TestTurnsHasEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		_, asked, err := briefly.take(recorder("only", &calls, time.Microsecond))
		if err != nil || asked != briefly.most+1 {
			t.Errorf("asked = %d, %v, want %d", asked, err, briefly.most+1)
		}
	})
}

func TestTurnsFails(t *testing.T) {
	broken := errors.New("no answer")
	_, _, err := briefly.take(func() (time.Duration, error) { return 0, broken })
	if !errors.Is(err, broken) {
		t.Errorf("err = %v, want that of the side", err)
	}
}
