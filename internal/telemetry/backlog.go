package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste/internal/store"
)

// statsTimeout is how long a scrape waits for the store.
const statsTimeout = 2 * time.Second

// StatsReader is the part of a store that a scrape asks.
type StatsReader interface {
	Stats(ctx context.Context, now time.Time) (store.Stats, error)
}

// backlog reads the state of a store at every scrape.
type backlog struct {
	store StatsReader
	now   func() time.Time

	age, lanes, bytes *prometheus.Desc
}

// RegisterStore registers metrics that describe the store at the moment of a
// scrape. It panics when the registerer has metrics of these names already.
func RegisterStore(registerer prometheus.Registerer, s StatsReader, now func() time.Time) {
	describe := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, nil, nil)
	}
	registerer.MustRegister(&backlog{
		store: s,
		now:   now,
		age:   describe("due_backlog_age_seconds", "How long the message that is most overdue has been due; 0 if none is."),
		lanes: describe("lanes", "Queues, flow-control keys and hosts that messages wait for or are being sent to."),
		bytes: describe("store_bytes", "Disk space the store takes."),
	})
}

// Describe names the metrics.
func (b *backlog) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{b.age, b.lanes, b.bytes} {
		out <- desc
	}
}

// Collect reads the store. When it does not answer, a scrape shows the failure
// instead of the numbers.
func (b *backlog) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
	defer cancel()
	now := b.now()
	stats, err := b.store.Stats(ctx, now)
	if err != nil {
		out <- prometheus.NewInvalidMetric(b.age, err)
		return
	}
	gauge := func(desc *prometheus.Desc, value float64) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	gauge(b.age, overdue(stats.OldestDueAt, now).Seconds())
	gauge(b.lanes, float64(stats.Lanes))
	gauge(b.bytes, float64(stats.DiskBytes))
}

func overdue(dueAt, now time.Time) time.Duration {
	if dueAt.IsZero() {
		return 0
	}
	return notNegative(now.Sub(dueAt))
}
