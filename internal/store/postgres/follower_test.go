package postgres

import (
	"testing"

	"posthaste"
)

func TestFollowers(t *testing.T) {
	const end = posthaste.Position(7)
	for name, c := range map[string]struct {
		happens func(*logWaiters, *logWaiter)
		woken   bool
	}{
		"nothing new": {func(f *logWaiters, who *logWaiter) {
			f.setRead("ann", who, end)
			f.notify("ann", end)
		}, false},
		"the log has grown": {func(f *logWaiters, who *logWaiter) {
			f.setRead("ann", who, end)
			f.notify("ann", end+1)
		}, true},
		"it has grown while its end was read": {func(f *logWaiters, who *logWaiter) {
			f.notify("ann", end+1)
			f.setRead("ann", who, end)
		}, true},
		"the end that was read is the latest": {func(f *logWaiters, who *logWaiter) {
			f.notify("ann", end)
			f.setRead("ann", who, end)
		}, false},
		"another one has read further": {func(f *logWaiters, who *logWaiter) {
			f.setRead("ann", who, end)
			f.setRead("ann", f.wait("ann"), end+1)
			f.notify("ann", end+1)
		}, true},
		"another one reads less, later": {func(f *logWaiters, who *logWaiter) {
			f.setRead("ann", f.wait("ann"), end+1)
			f.notify("ann", end+1)
			f.setRead("ann", who, end)
		}, true},
		"the log of another": {func(f *logWaiters, who *logWaiter) {
			f.setRead("ann", who, end)
			f.notify("anna", end+1)
			f.wake("anna")
		}, false},
		"a commit of this process": {func(f *logWaiters, who *logWaiter) { f.wake("ann") }, true},
		"the end of all":           {func(f *logWaiters, who *logWaiter) { f.wakeAll() }, true},
		"those who came later": {func(f *logWaiters, who *logWaiter) {
			f.wake("ann")
			f.setRead("ann", who, end) // of before
			f.setRead("ann", f.wait("ann"), end)
			f.notify("ann", end)
			if len(f.users()) != 1 {
				panic("who came later waits no more")
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := logWaiters{of: map[string]*logWaiter{}}
			who := f.wait("ann")
			c.happens(&f, who)
			select {
			case <-who.grown:
				if !c.woken {
					t.Error("who waits was woken")
				}
			default:
				if c.woken {
					t.Error("who waits was not woken")
				}
			}
		})
	}
}
