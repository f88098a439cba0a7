package background

import (
	"sync/atomic"
	"time"
)

// Foreground is the work of a process that goes first. Work in the background asks it,
// every few microseconds, to be paused while there is any: a thread of a lower priority
// still takes a processor from those who become ready, until the operating system looks
// again. Make one with NewForeground.
type Foreground struct {
	made   time.Time
	active atomic.Int64
	ended  atomic.Int64 // when the last of it ended, in ns since made
	onward atomic.Int64 // until when nobody lets others run, in ns since made

	paused chan struct{} // has an item while somebody pauses, and others wait for that
	repaid time.Duration // since made, when work will have gone on for as long as it paused
}

const (
	// echo is how long foreground work is thought to go on after its end: what is stored
	// is answered then, and what is claimed is sent.
	echo = time.Millisecond

	// longestPause is how much longer work may have paused than it went on since: where the
	// foreground never ends, work in the background gets half of the time.
	longestPause = 5 * time.Millisecond
)

// NewForeground returns a foreground without work.
func NewForeground() *Foreground {
	f := &Foreground{made: time.Now(), paused: make(chan struct{}, 1)}
	f.ended.Store(int64(-echo))
	return f
}

// Begin says that foreground work begins, and End that it has ended.
func (f *Foreground) Begin() { f.active.Add(1) }

// End ends what Begin began.
func (f *Foreground) End() {
	f.ended.Store(int64(f.now()))
	f.active.Add(-1)
}

// GiveWay lets the threads run that wait for the processor or, while there is foreground
// work, pauses until that has ended or work in the background has paused for its part.
// Nobody gives way to a nil foreground.
func (f *Foreground) GiveWay() {
	if f == nil {
		return
	}
	if !f.isBusy() {
		f.letOthersRun()
		return
	}
	f.paused <- struct{}{}
	defer func() { <-f.paused }()
	for f.isBusy() && f.pause() {
	}
}

// letOthersRun lets the threads run that wait for the processor of this one. For as long as
// they did neither this one nor others in the background do so again: other programs may
// keep all processors busy.
func (f *Foreground) letOthersRun() {
	began := f.now()
	if began < time.Duration(f.onward.Load()) {
		return
	}
	standBack()
	ended := f.now()
	f.onward.Store(int64(ended + ended - began))
}

// pause pauses for a moment, unless that would be too much.
func (f *Foreground) pause() bool {
	before := f.now()
	f.repaid = max(f.repaid, before)
	if f.repaid-before >= longestPause {
		return false
	}
	time.Sleep(echo)
	f.repaid += 2 * (f.now() - before)
	return true
}

func (f *Foreground) isBusy() bool {
	return f.active.Load() > 0 || f.now()-time.Duration(f.ended.Load()) < echo
}

func (f *Foreground) now() time.Duration { return time.Since(f.made) }
