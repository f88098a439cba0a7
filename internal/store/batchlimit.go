package store

import "time"

// Limits of one commit of a bulk change: its batch is held in memory, and other changes of the
// user, or of all users, wait for it.
const (
	BatchBytes = 4 << 20     // read, as counted by Entry.Size and the like
	BatchTime  = time.Second // wall clock
)

// BatchLimit measures one commit against BatchBytes and BatchTime.
type BatchLimit struct {
	begun time.Time
	bytes int
}

// NewBatchLimit starts measuring a commit.
func NewBatchLimit() BatchLimit { return BatchLimit{begun: time.Now()} }

// Take counts bytes read.
func (b *BatchLimit) Take(size int) { b.bytes += size }

// Full reports whether the commit has reached a limit.
func (b *BatchLimit) Full() bool { return b.bytes >= BatchBytes || time.Since(b.begun) >= BatchTime }
