package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// meter is a sink that also measures how many attempts of a lane were in flight at
// once. The lane of an attempt is the second segment of its path.
type meter struct {
	*sink

	gauges   sync.Mutex
	inFlight map[string]int
	most     map[string]int // of inFlight
}

// newMeter starts a meter that ends with the test.
func newMeter(t *testing.T) *meter {
	t.Helper()
	m := &meter{
		sink:     &sink{delivered: make(map[string]bool)},
		inFlight: make(map[string]int),
		most:     make(map[string]int),
	}
	m.closed = sync.NewCond(&m.mu)
	server := httptest.NewUnstartedServer(m)
	server.Config.ConnState = m.track
	server.Start()
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

// ServeHTTP answers an attempt. The sink's answers are small enough to stay in
// the buffer until this returns, so an attempt has left before its sender can
// know the answer.
func (m *meter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	segments := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 3)
	if len(segments) < 2 {
		return // asked by nextGeneration
	}
	m.enter(segments[1])
	defer m.leave(segments[1])
	m.sink.ServeHTTP(w, r)
}

func (m *meter) enter(lane string) {
	m.gauges.Lock()
	defer m.gauges.Unlock()
	m.inFlight[lane]++
	m.most[lane] = max(m.most[lane], m.inFlight[lane])
}

func (m *meter) leave(lane string) {
	m.gauges.Lock()
	defer m.gauges.Unlock()
	m.inFlight[lane]--
}

// mostInFlight returns how many attempts of a lane were in flight at once.
func (m *meter) mostInFlight(lane string) int {
	m.gauges.Lock()
	defer m.gauges.Unlock()
	return m.most[lane]
}

// waitForDeliveries waits until so many messages were delivered.
func (m *meter) waitForDeliveries(t *testing.T, count int) {
	t.Helper()
	const pause = 5 * time.Millisecond
	before, progress := m.deliveries(), time.Now()
	for before < count {
		time.Sleep(pause)
		now := m.deliveries()
		if now > before {
			before, progress = now, time.Now()
		} else if time.Since(progress) > patience {
			t.Fatalf("nothing arrives any more, %d of %d messages were delivered", now, count)
		}
	}
}
