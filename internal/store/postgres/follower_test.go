package postgres

import (
	"testing"

	"posthaste"
)

func TestFollowers(t *testing.T) {
	const end = posthaste.Position(7)
	for name, c := range map[string]struct {
		happens func(*followers, *following)
		woken   bool
	}{
		"nothing new": {func(f *followers, who *following) {
			f.know("ann", who, end)
			f.hear("ann", end)
		}, false},
		"the log has grown": {func(f *followers, who *following) {
			f.know("ann", who, end)
			f.hear("ann", end+1)
		}, true},
		"it has grown while its end was read": {func(f *followers, who *following) {
			f.hear("ann", end+1)
			f.know("ann", who, end)
		}, true},
		"the end that was read is the latest": {func(f *followers, who *following) {
			f.hear("ann", end)
			f.know("ann", who, end)
		}, false},
		"another one has read further": {func(f *followers, who *following) {
			f.know("ann", who, end)
			f.know("ann", f.join("ann"), end+1)
			f.hear("ann", end+1)
		}, true},
		"another one reads less, later": {func(f *followers, who *following) {
			f.know("ann", f.join("ann"), end+1)
			f.hear("ann", end+1)
			f.know("ann", who, end)
		}, true},
		"the log of another": {func(f *followers, who *following) {
			f.know("ann", who, end)
			f.hear("anna", end+1)
			f.wake("anna")
		}, false},
		"a commit of this process": {func(f *followers, who *following) { f.wake("ann") }, true},
		"the end of all":           {func(f *followers, who *following) { f.wakeAll() }, true},
		"those who came later": {func(f *followers, who *following) {
			f.wake("ann")
			f.know("ann", who, end) // of before
			f.know("ann", f.join("ann"), end)
			f.hear("ann", end)
			if len(f.users()) != 1 {
				panic("who came later waits no more")
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var f followers
			who := f.join("ann")
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
