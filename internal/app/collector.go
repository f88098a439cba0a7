package app

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// leastGarbage is how much garbage there is before it is collected, at least: 128 MiB.
//
// The runtime collects when the heap has grown by as much as was alive. Of a server that
// are a few megabytes, since the storage engine keeps its blocks elsewhere: it would
// collect ten times a second while somebody reads the log, and for some milliseconds each
// time there is a thread that marks on every processor, for which deliveries wait.
const leastGarbage = 128 << 20

// usualPercent is how much the heap grows by, in percent of what was alive, as the runtime
// has it by default.
const usualPercent = 100

// relaxCollector makes the runtime leave at least so much garbage from now on, unless the
// operator has decided (GOGC). A limit of memory counts more: near it the runtime collects
// as often as it has to.
var relaxCollector = sync.OnceFunc(func() {
	if os.Getenv("GOGC") != "" {
		return
	}
	percent := usualPercent
	afterCollections(func() {
		if wanted := growthFor(liveHeap()); math.Abs(float64(wanted-percent)) > float64(percent)/8 { // it stops the world
			percent = wanted
			debug.SetGCPercent(percent)
		}
	})
})

// growthFor returns by how much a heap may grow, in percent of what is alive.
func growthFor(live uint64) int {
	return int(max(usualPercent, leastGarbage*100/max(live, 1<<20)))
}

// afterCollections calls do after every collection, one call at a time.
func afterCollections(do func()) {
	type garbage struct{ _ *byte }
	runtime.AddCleanup(new(garbage), func(do func()) {
		do()
		afterCollections(do)
	}, do)
}

// liveHeap returns the bytes that the last collection found alive.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
