package telemetry

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste/internal/store"
)

// UsageReader is the part of a store that knows how much is kept.
type UsageReader interface {
	TotalUsage(ctx context.Context) (store.Usage, error)
}

// kept reads how much a store keeps, of all users together, at every scrape.
type kept struct {
	store UsageReader

	entries, bytes, oldest *prometheus.Desc
}

// RegisterUsage registers metrics that describe how much is kept at the moment of a
// scrape. It panics when the registerer has metrics of these names already.
func RegisterUsage(registerer prometheus.Registerer, s UsageReader) {
	describe := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "kept", name), help, []string{"kind"}, nil)
	}
	registerer.MustRegister(&kept{
		store:   s,
		entries: describe("entries", "Stored events, dead letters, failed runs and runs."),
		bytes:   describe("bytes", "Estimated disk space of stored events, dead letters, failed runs and runs."),
		oldest:  describe("oldest_timestamp_seconds", "Creation time of the oldest stored item of each kind; absent if there is none."),
	})
}

// Describe names the metrics.
func (k *kept) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{k.entries, k.bytes, k.oldest} {
		out <- desc
	}
}

// Collect reads the store. When it does not answer, a scrape shows the failure
// instead of the numbers.
func (k *kept) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
	defer cancel()
	usage, err := k.store.TotalUsage(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(k.entries, err)
		return
	}
	for _, of := range []struct {
		kind string
		kept store.KindUsage
	}{
		{"log", usage.Log},
		{"dead_letters", usage.DeadLetters},
		{"failed_runs", usage.FailedRuns},
		{"runs", usage.Runs},
	} {
		gauge := func(desc *prometheus.Desc, value float64) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, of.kind)
		}
		gauge(k.entries, float64(of.kept.Entries))
		gauge(k.bytes, float64(of.kept.Bytes))
		if !of.kept.Oldest.IsZero() {
			gauge(k.oldest, float64(of.kept.Oldest.UnixMilli())/1000)
		}
	}
}
