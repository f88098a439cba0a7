package disk

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
)

// freeSpaceMaxAge is how long a measured free space is used.
const freeSpaceMaxAge = time.Second

// Reserve keeps the last free space of the disk for work in progress and for retention. When
// less than the reserve is free, it rejects operations that begin something new.
type Reserve struct {
	fs      vfs.FS
	dir     string
	reserve int64 // bytes; 0: nothing is refused
	logger  *slog.Logger

	mu      sync.Mutex
	askedAt time.Time
	free    int64 // bytes, as of then
	refusal error // nil while there is room
}

// NewReserve returns the reserve of a directory: a number of bytes, or 0 to refuse nothing.
func NewReserve(fs vfs.FS, dir string, reserve int64, logger *slog.Logger) *Reserve {
	return &Reserve{fs: fs, dir: dir, reserve: reserve, logger: logger}
}

// Check returns nil, or a posthaste.Error that says why nothing new is accepted.
func (r *Reserve) Check() error {
	if r.reserve == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ask()
	return r.refusal
}

// Left returns how many bytes are free, and whether new work is refused.
func (r *Reserve) Left() (free int64, refusing bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ask()
	return r.free, r.refusal != nil
}

// ask measures the free space unless the last measurement is recent. r.mu is held.
func (r *Reserve) ask() {
	now := time.Now()
	if !r.askedAt.IsZero() && now.Sub(r.askedAt) < freeSpaceMaxAge {
		return
	}
	r.askedAt = now
	usage, err := r.fs.GetDiskUsage(r.dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return
	}
	if err != nil {
		r.logger.Warn("store.free_space_unknown", "error", err.Error())
		return
	}
	r.free = int64(min(usage.AvailBytes, 1<<62))
	switch short := r.free < r.reserve; {
	case short && r.refusal == nil:
		r.logger.Error("store.full", "free_bytes", r.free, "reserve_bytes", r.reserve, "error", "new messages are rejected until disk space is freed")
		r.refusal = r.refuse()
	case short:
		r.refusal = r.refuse()
	case r.refusal != nil:
		r.logger.Warn("store.has_room", "free_bytes", r.free)
		r.refusal = nil
	}
}

func (r *Reserve) refuse() error {
	return posthaste.Errorf(posthaste.CodeUnavailable,
		"the disk of the server is full: %d MiB are left, and %d MiB are reserved for what was accepted before; nothing new is accepted until there is room",
		r.free>>20, r.reserve>>20)
}
