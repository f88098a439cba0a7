package telemetry

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste/internal/store"
)

// scrapeTimeout is how long a scrape waits for the store.
const scrapeTimeout = 2 * time.Second

// scraped reads a store at every scrape.
type scraped[T any] struct {
	read    func(context.Context) (T, error)
	metrics []scrapedMetric[T]

	labelled   []*prometheus.Desc // of what series collects; its labels are not known before
	labelledBy func(T, chan<- prometheus.Metric)
}

// scrapedMetric is a number among what was read. NaN is left out.
type scrapedMetric[T any] struct {
	kind  prometheus.ValueType
	desc  *prometheus.Desc
	value func(T) float64
}

// Describe implements prometheus.Collector.
func (s scraped[T]) Describe(out chan<- *prometheus.Desc) {
	for _, m := range s.metrics {
		out <- m.desc
	}
	for _, desc := range s.labelled {
		out <- desc
	}
}

// Collect implements prometheus.Collector. During an outage of the store, which is logged where it is noticed, a
// scrape has none of the numbers. After any other error it reports the error instead of them.
func (s scraped[T]) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	read, err := s.read(ctx)
	if errors.Is(err, store.ErrUnavailable) {
		return
	}
	if err != nil {
		out <- prometheus.NewInvalidMetric(s.metrics[0].desc, err)
		return
	}
	for _, m := range s.metrics {
		if value := m.value(read); !math.IsNaN(value) {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, value)
		}
	}
	if s.labelledBy != nil {
		s.labelledBy(read, out)
	}
}

// StatsReader is the part of a store that knows its state.
type StatsReader interface {
	Stats(ctx context.Context, now time.Time) (store.Stats, error)
}

// RegisterStore registers metrics that describe the store at the moment of a scrape. queues is the maximum
// number of queues that are named, those that lag most. It panics if the registerer already has metrics of
// these names.
func RegisterStore(registerer prometheus.Registerer, s StatsReader, now func() time.Time, queues int) {
	waiting := prometheus.NewDesc("messages_waiting", "Messages that wait for an attempt, by state and by what holds the next message of their queue, flow-control key or host.", []string{"state", "reason"}, nil)
	lag := prometheus.NewDesc("queue_lag_seconds", "Time since the next message of a queue became due, paused or not. queue=\"\" is the maximum of the queues without a series of their own.", []string{"user", "queue"}, nil)
	describe := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	prefixed(registerer).MustRegister(scraped[store.Stats]{
		read: func(ctx context.Context) (store.Stats, error) { return s.Stats(ctx, now()) },
		metrics: []scrapedMetric[store.Stats]{
			{gauge, describe("due_backlog_age_seconds", "Age of the most overdue message, not counting paused queues and flow-control keys; 0 if none is due."), func(s store.Stats) float64 { return overdue(s.OldestDueAt, now()) }},
			{gauge, describe("paused_backlog_age_seconds", "Age of the most overdue message in paused queues and flow-control keys; 0 if none is due."), func(s store.Stats) float64 { return overdue(s.OldestPausedDueAt, now()) }},
			{gauge, describe("lanes", "Queues, flow-control keys and hosts with messages waiting or in flight."), func(s store.Stats) float64 { return float64(s.Lanes) }},
			{gauge, describe("store_bytes", "Disk space used by the store."), func(s store.Stats) float64 { return float64(s.DiskBytes) }},
			{gauge, describe("store_set_aside_records", "Unreadable records found since startup; they are skipped and stay stored."), func(s store.Stats) float64 { return float64(s.SetAside) }},
			{gauge, describe("store_free_bytes", "Free space on the store's disk; 0 if unknown."), func(s store.Stats) float64 { return float64(s.FreeBytes) }},
			{gauge, describe("store_full", "1 while free disk space is below the reserve and new work is refused, else 0."), func(s store.Stats) float64 {
				if s.Full {
					return 1
				}
				return 0
			}},
			{gauge, describe("store_stalled_seconds", "Time since the disk stopped responding; 0 while it responds."), func(s store.Stats) float64 { return s.Stalled.Seconds() }},
			{counter, describe("store_written_bytes_total", "Bytes written to disk by the store, including compactions; 0 if the store does not count them."), func(s store.Stats) float64 { return float64(s.WrittenBytes) }},
			{counter, describe("log_index_blocks_read_total", "Index blocks read by log queries; 0 if the store does not count them."), func(s store.Stats) float64 { return float64(s.LogReads.IndexBlocks) }},
			{counter, describe("log_entries_read_total", "Entries read by log queries; 0 if the store does not count them."), func(s store.Stats) float64 { return float64(s.LogReads.Entries) }},
			{counter, describe("log_entries_returned_total", "Entries returned by log queries; 0 if the store does not count them."), func(s store.Stats) float64 { return float64(s.LogReads.Returned) }},
		},
		labelled: []*prometheus.Desc{waiting, lag},
		labelledBy: func(s store.Stats, out chan<- prometheus.Metric) {
			for _, of := range store.AllWaiting {
				if s.Waiting != nil {
					out <- prometheus.MustNewConstMetric(waiting, gauge, float64(s.Waiting[of]), string(of.State), string(of.Hold))
				}
			}
			slices.SortFunc(s.Queues, func(a, b store.QueueLag) int { return a.DueAt.Compare(b.DueAt) })
			named := min(queues, len(s.Queues))
			for _, q := range s.Queues[:named] {
				out <- prometheus.MustNewConstMetric(lag, gauge, overdue(q.DueAt, now()), label(q.User), label(q.Queue))
			}
			var rest time.Time
			if named < len(s.Queues) {
				rest = s.Queues[named].DueAt
			}
			out <- prometheus.MustNewConstMetric(lag, gauge, overdue(rest, now()), "", "")
		},
	})
}

// label makes a name that a client chose the value of a label.
func label(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// overdue returns for how many seconds something has been due.
func overdue(dueAt, now time.Time) float64 {
	if dueAt.IsZero() {
		return 0
	}
	return notNegative(now.Sub(dueAt)).Seconds()
}

// UsageReader is the part of a store that knows how much is kept.
type UsageReader interface {
	Usage(ctx context.Context, user string) (store.Usage, error)
}

// RegisterUsage registers metrics that describe how much is kept of all users together at the
// moment of a scrape. It panics when the registerer has metrics of these names already.
func RegisterUsage(registerer prometheus.Registerer, s UsageReader) {
	usage := scraped[store.Usage]{read: func(ctx context.Context) (store.Usage, error) { return s.Usage(ctx, "") }}
	for kind, of := range map[string]func(store.Usage) store.KindUsage{
		"log":          func(u store.Usage) store.KindUsage { return u.Log },
		"dead_letters": func(u store.Usage) store.KindUsage { return u.DeadLetters },
		"failed_runs":  func(u store.Usage) store.KindUsage { return u.FailedRuns },
		"runs":         func(u store.Usage) store.KindUsage { return u.Runs },
	} {
		add := func(name, help string, value func(store.KindUsage) float64) {
			desc := prometheus.NewDesc("kept_"+name, help, nil, prometheus.Labels{"kind": kind})
			usage.metrics = append(usage.metrics, scrapedMetric[store.Usage]{prometheus.GaugeValue, desc, func(u store.Usage) float64 { return value(of(u)) }})
		}
		add("entries", "Stored events, dead letters, failed runs and runs.", func(k store.KindUsage) float64 { return float64(k.Entries) })
		add("bytes", "Estimated disk space of stored events, dead letters, failed runs and runs.", func(k store.KindUsage) float64 { return float64(k.Bytes) })
		add("oldest_timestamp_seconds", "Creation time of the oldest stored item of each kind; absent if there is none.", func(k store.KindUsage) float64 {
			if k.Oldest.IsZero() {
				return math.NaN()
			}
			return float64(k.Oldest.UnixMilli()) / 1000
		})
	}
	prefixed(registerer).MustRegister(usage)
}
