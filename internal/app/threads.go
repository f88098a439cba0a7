package app

import (
	"runtime"
	"sync"
)

// addSyncThread lets the runtime run one more thread at a time, once per process. A commit of the
// embedded store blocks a thread in fsync, and it takes the runtime tens of microseconds to
// notice and to run another in its place. Publishing is at least 5 % slower without.
var addSyncThread = sync.OnceFunc(func() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1) })
