package app

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestGrowthFor(t *testing.T) {
	for live, want := range map[uint64]int{
		0:         12800,
		1 << 20:   12800,
		8 << 20:   1600,
		32 << 20:  400,
		128 << 20: 100,
		500 << 20: 100,
	} {
		if got := growthFor(live); got != want {
			t.Errorf("growthFor(%d) = %d, want %d", live, got, want)
		}
	}
}

// TestRelaxCollector collects while little is alive, and while much is.
func TestRelaxCollector(t *testing.T) {
	t.Setenv("GOGC", "")
	relaxCollector()
	awaitPercent(t, func(percent uint64) bool { return percent > usualPercent })
	much := make([]byte, 2*leastGarbage)
	awaitPercent(t, func(percent uint64) bool { return percent == usualPercent })
	runtime.KeepAlive(much)
	much = nil
	awaitPercent(t, func(percent uint64) bool { return percent > usualPercent })
}

// awaitPercent collects until the heap may grow as is wanted.
func awaitPercent(t *testing.T, isWanted func(percent uint64) bool) {
	t.Helper()
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		metrics.Read(sample)
		if isWanted(sample[0].Value.Uint64()) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the heap may grow by %d %%", sample[0].Value.Uint64())
		}
	}
}
