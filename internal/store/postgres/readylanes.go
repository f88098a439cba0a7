package postgres

import (
	"sync"
	"time"
)

// What lanes and claims were before stays in indexes while somebody holds a snapshot of the database,
// and what reads all of them takes longer and longer. So it rests after each time for as long as that
// took, this many times.
const restAfter = 20

// readyLanes is since when lanes may be ready, so that those that were before are not read again.
type readyLanes struct {
	mu    sync.Mutex
	since int64     // in Unix milliseconds
	all   time.Time // when to look at all lanes again, by this node's clock
	last  time.Time // the time of the last look
}

// lateLanes is how long after it became ready a lane is seen first, or else when all are looked at.
const lateLanes = time.Second

// from returns since when lanes are to be looked at.
func (r *readyLanes) from(now time.Time) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.last) || !time.Now().Before(r.all) {
		r.since = 0
	}
	r.last = now
	return r.since
}

// looked notes how long that took, and since when a lane is ready, nil if none is.
func (r *readyLanes) looked(from int64, took time.Duration, first *int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from == 0 {
		r.all = time.Now().Add(restAfter * took)
	}
	r.since = max(0, r.last.Add(-lateLanes).UnixMilli())
	if first != nil {
		r.since = min(r.since, *first)
	}
}

// known returns since when lanes were ready at the last look.
func (r *readyLanes) known() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since
}

// lookAtAll has the next look be one at all lanes.
func (r *readyLanes) lookAtAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since, r.all = 0, time.Time{}
}
