package e2e

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"
)

// follower reads the log as it grows, oldest entry first. At the end of the log
// it asks for the last page again and skips what it has of it; whatever a page
// showed once must therefore never vanish.
type follower struct {
	cursor  string // of the present page
	taken   int    // entries of the present page that were read
	entries []logEntry

	seen    map[string]bool // ids of messages
	unended map[string]bool // those that will go on
}

func newFollower() *follower {
	return &follower{seen: make(map[string]bool), unended: make(map[string]bool)}
}

// read asks for the present page once and reports whether there is another one.
func (f *follower) read(ctx context.Context, c *client) (more bool, err error) {
	query := url.Values{"order": {"earliestFirst"}}
	if f.cursor != "" {
		query.Set("cursor", f.cursor)
	}
	page, err := c.logs(ctx, query)
	if err != nil {
		return false, err
	}
	if len(page.Events) < f.taken {
		return false, fmt.Errorf("a page of the log had %d entries and has %d now", f.taken, len(page.Events))
	}
	for _, entry := range page.Events[f.taken:] {
		f.take(entry)
	}
	if page.Cursor == "" {
		f.taken = len(page.Events)
		return false, nil
	}
	f.cursor, f.taken = page.Cursor, 0
	return true, nil
}

func (f *follower) take(entry logEntry) {
	f.entries = append(f.entries, entry)
	f.seen[entry.MessageID] = true
	if entry.State.Terminal() {
		delete(f.unended, entry.MessageID)
	} else {
		f.unended[entry.MessageID] = true
	}
}

// readOn reads a page, and pauses at the end of the log, where more reports that there is none.
func (f *follower) readOn(c *client) (more bool, err error) {
	const pause = 100 * time.Millisecond // a page may have a thousand entries, which take long to read again
	more, err = f.read(context.Background(), c)
	if err == nil && !more {
		time.Sleep(pause)
	}
	return more, err
}

// waitForEnd reads on until the acknowledged messages and all others of the log have ended,
// or nothing more happens. Those that were stored and never acknowledged are known when the log
// was read to its end.
func (f *follower) waitForEnd(t *testing.T, c *client, acknowledged map[string]bool) {
	t.Helper()
	progress := time.Now()
	for more := true; more || !f.allEnded(acknowledged); {
		before := len(f.entries)
		var err error
		if more, err = f.readOn(c); err != nil {
			t.Fatalf("follow the log: %v", err)
		}
		switch {
		case len(f.entries) > before:
			progress = time.Now()
		case time.Since(progress) > patience:
			t.Errorf("nothing more happens, and %d messages of the log have not ended", len(f.unended))
			return
		}
	}
}

func (f *follower) allEnded(acknowledged map[string]bool) bool {
	for id := range acknowledged {
		if !f.seen[id] {
			return false
		}
	}
	return len(f.unended) == 0
}
