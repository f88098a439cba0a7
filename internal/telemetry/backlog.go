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
		age:    describe("due_backlog_age_seconds", "How long the message that is most overdue has been due, those that a pause holds left out; 0 if none is."),
		paused: describe("paused_backlog_age_seconds", "How long the message that is most overdue in a paused queue or under a paused flow-control key has been due; 0 if none is."),
		lanes:  describe("lanes", "Queues, flow-control keys and hosts that messages wait for or are being sent to."),
		bytes:  describe("store_bytes", "Disk space the store takes."),

		aside:   describe("store_set_aside_records", "Records that could not be read since the start; they stay stored, and are passed over."),
		free:    describe("store_free_bytes", "Space that is left on the disk of the store; 0 where the store does not know."),
		full:    describe("store_full", "1 while the disk has so little space left that nothing new is accepted, else 0."),
		stalled: describe("store_stalled_seconds", "For how long the disk has not answered; 0 as long as it does."),

		written:     describe("store_written_bytes_total", "Bytes the store wrote to disk, also to keep what is there in order; 0 where it does not count them."),
		indexBlocks: describe("log_index_blocks_read_total", "Blocks of the index that queries of the log read; 0 where the store does not count them."),
		entriesRead: describe("log_entries_read_total", "Entries that queries of the log read to find those they returned; 0 where the store does not count them."),
		returned:    describe("log_entries_returned_total", "Entries that queries of the log returned; 0 where the store does not count them."),
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
