package telemetry_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"posthaste/internal/telemetry"
)

// TestSharedCollectsOnceASecond asks for metrics that take half a second to collect.
func TestSharedCollectsOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		collected, atOnce := 0, 0
		gatherer := telemetry.Shared(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			mu.Lock()
			collected++
			atOnce++
			if atOnce > 1 {
				t.Error("metrics are collected twice at once")
			}
			mu.Unlock()
			time.Sleep(500 * time.Millisecond)
			mu.Lock()
			atOnce--
			mu.Unlock()
			return []*dto.MetricFamily{{}}, nil
		}))
		scrape := func(times int) {
			var scrapes sync.WaitGroup
			for range times {
				scrapes.Go(func() {
					if families, err := gatherer.Gather(); err != nil || len(families) != 1 {
						t.Errorf("Gather = %v, %v", families, err)
					}
				})
			}
			scrapes.Wait()
		}
		scrape(20)
		time.Sleep(900 * time.Millisecond)
		scrape(20)
		if collected != 1 {
			t.Errorf("40 scrapes within a second collected %d times, want once", collected)
		}
		time.Sleep(100 * time.Millisecond)
		scrape(20)
		if collected != 2 {
			t.Errorf("scrapes a second later collected %d times in all, want twice", collected)
		}
	})
}
