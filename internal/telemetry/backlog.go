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

	age, paused, lanes, bytes, aside            *prometheus.Desc
	free, full, stalled                         *prometheus.Desc
	written, indexBlocks, entriesRead, returned *prometheus.Desc
}

// RegisterStore registers metrics that describe the store at the moment of a
// scrape. It panics when the registerer has metrics of these names already.
func RegisterStore(registerer prometheus.Registerer, s StatsReader, now func() time.Time) {
	describe := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, nil, nil)
	}
	registerer.MustRegister(&backlog{
		store:  s,
		now:    now,
		age:    describe("due_backlog_age_seconds", "Age of the most overdue message, not counting paused queues and flow-control keys; 0 if none is due."),
		paused: describe("paused_backlog_age_seconds", "Age of the most overdue message in paused queues and flow-control keys; 0 if none is due."),
		lanes:  describe("lanes", "Queues, flow-control keys and hosts with messages waiting or in flight."),
		bytes:  describe("store_bytes", "Disk space used by the store."),

		aside:   describe("store_set_aside_records", "Unreadable records found since startup; they are skipped and stay stored."),
		free:    describe("store_free_bytes", "Free space on the store's disk; 0 if unknown."),
		full:    describe("store_full", "1 while free disk space is below the reserve and new work is rejected, else 0."),
		stalled: describe("store_stalled_seconds", "Time since the disk stopped responding; 0 while it responds."),

		written:     describe("store_written_bytes_total", "Bytes written to disk by the store, including compactions; 0 if the store does not count them."),
		indexBlocks: describe("log_index_blocks_read_total", "Index blocks read by log queries; 0 if the store does not count them."),
		entriesRead: describe("log_entries_read_total", "Entries read by log queries; 0 if the store does not count them."),
		returned:    describe("log_entries_returned_total", "Entries returned by log queries; 0 if the store does not count them."),
	})
}

// Describe names the metrics.
func (b *backlog) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{b.age, b.paused, b.lanes, b.bytes, b.aside, b.free, b.full, b.stalled, b.written, b.indexBlocks, b.entriesRead, b.returned} {
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
	gauge(b.paused, overdue(stats.OldestPausedDueAt, now).Seconds())
	gauge(b.lanes, float64(stats.Lanes))
	gauge(b.bytes, float64(stats.DiskBytes))
	gauge(b.aside, float64(stats.SetAside))
	gauge(b.free, float64(stats.FreeBytes))
	gauge(b.full, truth(stats.Full))
	gauge(b.stalled, stats.Stalled.Seconds())
	sum := func(desc *prometheus.Desc, value int64) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value))
	}
	sum(b.written, stats.WrittenBytes)
	sum(b.indexBlocks, stats.LogReads.IndexBlocks)
	sum(b.entriesRead, stats.LogReads.Entries)
	sum(b.returned, stats.LogReads.Returned)
}

// truth is 1 for what is so.
func truth(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

func overdue(dueAt, now time.Time) time.Duration {
	if dueAt.IsZero() {
		return 0
	}
	return notNegative(now.Sub(dueAt))
}
