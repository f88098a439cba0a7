package engine

import (
	"sync"
	"time"

	"posthaste"
)

// takeUpEvery is how often an engine looks for bulk actions that nobody does any more.
const takeUpEvery = 10 * time.Second

// takeUpActions takes up the bulk actions that are unfinished when the engine starts, and
// later those that make no progress: whoever did them has died. That two engines do the
// same for a while does no harm, for what one has changed is not there for the other, and
// a step is counted once. It also forgets actions that ended long ago.
func (e *Engine) takeUpActions() {
	ticker := time.NewTicker(takeUpEvery)
	defer ticker.Stop()
	var seen map[string]progress
	for {
		seen = e.takeUpOnce(seen)
		select {
		case <-ticker.C:
		case <-e.claiming.Done():
			return
		}
	}
}

// progress is how far a bulk action is.
type progress struct {
	cursor            string
	processed, failed int
}

// takeUpOnce takes up the actions that are where they were when they were seen before,
// all of them at the first time, and returns where they are now. One that was not seen
// before may just have begun elsewhere.
func (e *Engine) takeUpOnce(before map[string]progress) map[string]progress {
	if err := e.options.Store.DeleteActions(e.claiming, e.now().Add(-posthaste.ActionRetention)); err != nil {
		e.options.Logger.Error("action.cleanup_failed", "error", err)
	}
	unfinished, err := e.options.Store.UnfinishedActions(e.claiming)
	if err != nil {
		e.options.Logger.Error("action.resume_failed", "error", err)
		return before
	}
	now := make(map[string]progress, len(unfinished))
	for _, action := range unfinished {
		at := progress{action.Cursor, action.Processed, action.Failed}
		now[action.ID] = at
		if was, seen := before[action.ID]; before != nil && (!seen || was != at) || !e.own.add(action.ID) {
			continue
		}
		e.running.Go(func() { e.runAction(action) })
	}
	return now
}

// ownActions are the bulk actions that an engine does.
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
