package background

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestGiveWay asks at several moments of foreground work how long a pause there is.
func TestGiveWay(t *testing.T) {
	tests := map[string]struct {
		foreground func(*Foreground)
		want       time.Duration
	}{
		"nothing was ever to be done": {func(*Foreground) {}, 0},
		"work that goes on":           {func(f *Foreground) { f.Begin() }, longestPause},
		"work that has just ended":    {func(f *Foreground) { f.Begin(); f.End() }, echo},
		"one of two has ended":        {func(f *Foreground) { f.Begin(); f.Begin(); f.End() }, longestPause},
		"work that ended a while ago": {func(f *Foreground) { f.Begin(); f.End(); time.Sleep(echo) }, 0},
		"work that will end": {func(f *Foreground) {
			f.Begin()
			time.AfterFunc(2*echo-1, f.End)
		}, 3 * echo},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := NewForeground()
				test.foreground(f)
				began := time.Now()
				f.GiveWay()
				if paused := time.Since(began); paused != test.want {
					t.Errorf("paused for %v, want %v", paused, test.want)
				}
			})
		})
	}
}

// TestGiveWayLetsOthersRun looks at what is noted then.
func TestGiveWayLetsOthersRun(t *testing.T) {
	f := NewForeground()
	f.GiveWay()
	if f.onward.Load() == 0 {
		t.Error("nobody was let run")
	}
	f.onward.Store(int64(time.Hour))
	if f.GiveWay(); f.onward.Load() != int64(time.Hour) {
		t.Error("others were let run again too early")
	}
}

// TestGiveWayIsNoStarving works beside foreground work that never ends, alone and
// with others.
func TestGiveWayIsNoStarving(t *testing.T) {
	const (
		piece = 100 * time.Microsecond
		span  = time.Second
	)
	for _, workers := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			f := NewForeground()
			f.Begin()
			var working sync.WaitGroup
			for range workers {
				working.Go(func() {
					worked := time.Duration(0)
					for began := time.Now(); time.Since(began) < span; worked += piece {
						f.GiveWay()
						time.Sleep(piece)
					}
					if worked < span*2/5 || worked > span*3/5 {
						t.Errorf("one of %d worked for %v of %v, want about half", workers, worked, span)
					}
				})
			}
			working.Wait()
		})
	}
}
