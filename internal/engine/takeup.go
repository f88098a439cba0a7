package engine

import (
	"sync"
	"time"

	"posthaste"
)

// takeUpEvery is how often an engine looks for bulk actions that nobody does, and how long
// an action is its own with each step.
const takeUpEvery = 10 * time.Second

// takeUpActions takes up the bulk actions that are unfinished and that nobody does: whoever
// did them has died. It also forgets actions that ended long ago.
func (e *Engine) takeUpActions() {
	ticker := time.NewTicker(takeUpEvery)
	defer ticker.Stop()
	for {
		e.takeUpOnce()
		select {
		case <-ticker.C:
		case <-e.claiming.Done():
			return
		}
	}
}

// takeUpOnce takes up all unfinished actions, of which each turns out to be free, or to be
// somebody else's.
func (e *Engine) takeUpOnce() {
	if err := e.options.Store.DeleteActions(e.claiming, e.now().Add(-posthaste.ActionRetention)); err != nil {
		e.options.Logger.Error("action.cleanup_failed", "error", err)
	}
	unfinished, err := e.options.Store.UnfinishedActions(e.claiming)
	if err != nil {
		e.options.Logger.Error("action.resume_failed", "error", err)
	}
	for _, action := range unfinished {
		if e.own.add(action.ID) {
			e.running.Go(func() { e.runAction(action) })
		}
	}
}

// ownActions are the bulk actions that an engine does, or is about to ask for.
type ownActions struct {
	mu  sync.Mutex
	ids map[string]bool
}

// add reports whether the action is a new one.
func (o *ownActions) add(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids[id] {
		return false
	}
	if o.ids == nil {
		o.ids = map[string]bool{}
	}
	o.ids[id] = true
	return true
}

func (o *ownActions) remove(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.ids, id)
}
