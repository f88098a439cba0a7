package disk

import (
	"log/slog"
	"sync"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// stallAfter is how long the disk may take for a commit before callers stop waiting.
const stallAfter = 5 * time.Second

// Errors while the disk does not answer. Both are store.ErrUnavailable.
var (
	ErrStalled = &posthaste.Error{
		Code:    posthaste.CodeUnavailable,
		Message: "the disk of the server does not answer, so nothing was done: try again later",
		Err:     store.ErrUnavailable,
	}
	ErrStalledMeanwhile = &posthaste.Error{
		Code:    posthaste.CodeUnavailable,
		Message: "the disk of the server does not answer, so it is not known yet whether this was done: look later, or try again",
		Err:     store.ErrUnavailable,
	}
)

// StallWatch detects a disk that does not answer. Then only the writer waits for the disk: all
// other callers get an error at once, and operations in progress take effect when the disk answers
// again.
type StallWatch struct {
	logger *slog.Logger

	mu        sync.Mutex
	timer     *time.Timer
	inFlight  int           // commits the disk has not answered for
	since     time.Time     // when the oldest of them was handed over, or the last answer came
	stalled   chan struct{} // closed while the disk does not answer
	isStalled bool
}

func NewStallWatch(logger *slog.Logger) *StallWatch {
	w := &StallWatch{logger: logger, stalled: make(chan struct{})}
	w.timer = time.AfterFunc(time.Hour, w.notice)
	w.timer.Stop()
	return w
}

// Begin says that a commit is handed to the disk, and End that the disk has answered for one.
func (w *StallWatch) Begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inFlight++; w.inFlight == 1 {
		w.wait()
	}
}

func (w *StallWatch) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isStalled {
		w.isStalled, w.stalled = false, make(chan struct{})
		w.logger.Warn("store.resumed", "after", time.Since(w.since))
	}
	if w.inFlight--; w.inFlight == 0 {
		w.timer.Stop()
		return
	}
	w.wait()
}

// wait expects the next answer from now on. w.mu is held.
func (w *StallWatch) wait() {
	w.since = time.Now()
	w.timer.Reset(stallAfter)
}

// notice is called when an answer is overdue.
func (w *StallWatch) notice() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inFlight == 0 || w.isStalled || time.Since(w.since) < stallAfter {
		return // it came at the last moment
	}
	w.isStalled = true
	close(w.stalled)
	w.logger.Error("store.stalled", "error", "the disk does not respond; requests are rejected until it does", "after", stallAfter)
}

// Noticed returns a channel that is closed while the disk does not answer.
func (w *StallWatch) Noticed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stalled
}

// Err returns an error while the disk does not answer.
func (w *StallWatch) Err() error {
	select {
	case <-w.Noticed():
		return ErrStalled
	default:
		return nil
	}
}

// Duration returns how long the disk has not answered, 0 below stallAfter.
func (w *StallWatch) Duration() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isStalled {
		return 0
	}
	return time.Since(w.since)
}
