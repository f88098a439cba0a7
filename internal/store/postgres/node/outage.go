package node

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"posthaste/internal/store"
)

// outage is a time in which the database cannot be reached. It is two lines of the log, however many
// calls are refused meanwhile.
type outage struct {
	part   store.PartAway
	logger *slog.Logger
	back   func() // called at its end, before calls go on

	mu      sync.Mutex
	since   time.Time // zero: there is none
	cause   error
	refused int // calls
}

func (o *outage) on() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.since.IsZero()
}

func (o *outage) begin(cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		o.since, o.cause, o.refused = time.Now(), cause, 0
		o.logger.Error("database.lost", "error", cause, "consequence", "calls that need it are refused until it answers")
	}
}

func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.since.IsZero() {
		o.back()
		o.logger.Info("database.back", "after_ms", time.Since(o.since).Milliseconds(), "refused", o.refused)
		o.since = time.Time{}
	}
}

// refuse returns store.ErrUnavailable during an outage, and counts that.
func (o *outage) refuse() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		return nil
	}
	o.refused++
	err := fmt.Errorf("%w: the database has been away since %s: %w", store.ErrUnavailable, o.since.UTC().Format(time.TimeOnly), o.cause)
	if o.part != "" {
		err = fmt.Errorf("%w: %w", o.part, err)
	}
	return err
}
