package telemetry

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"posthaste/internal/admission"
)

// RegisterAdmission registers what requests wait for: their turn to be worked on, memory for
// their bodies, and others, such as memory for what they are answered.
func RegisterAdmission(registerer prometheus.Registerer, requests, bodies func() admission.Usage, others ...func() admission.Usage) {
	all := append([]func() admission.Usage{requests, bodies}, others...)
	sum := func(of func(admission.Usage) float64) func() float64 {
		return func() (total float64) {
			for _, usage := range all {
				total += of(usage())
			}
			return total
		}
	}
	r := promauto.With(prefixed(registerer))
	r.NewGaugeFunc(prometheus.GaugeOpts{Name: "requests_working", Help: "API requests being served."}, func() float64 { return float64(requests().Held) })
	r.NewGaugeFunc(prometheus.GaugeOpts{Name: "request_body_bytes", Help: "Memory reserved for request bodies."}, func() float64 { return float64(bodies().Held) })
	r.NewGaugeFunc(prometheus.GaugeOpts{Name: "requests_waiting", Help: "Requests waiting to be admitted."}, sum(func(u admission.Usage) float64 { return float64(u.Waiting) }))
	r.NewCounterFunc(prometheus.CounterOpts{Name: "requests_refused_total", Help: "Requests refused with 429 or 503 because a request, memory or user limit was reached."}, sum(func(u admission.Usage) float64 { return float64(u.Refused) }))
}

// RegisterConnections registers how many clients are connected.
func RegisterConnections(registerer prometheus.Registerer, count func() int) {
	promauto.With(prefixed(registerer)).NewGaugeFunc(prometheus.GaugeOpts{Name: "connections", Help: "Open client connections."}, func() float64 { return float64(count()) })
}

// RegisterBuild registers the metric that names the version. It panics when the registerer has it
// already.
func RegisterBuild(registerer prometheus.Registerer, version string) {
	promauto.With(prefixed(registerer)).NewGauge(prometheus.GaugeOpts{
		Name: "build_info", Help: "1, with the version of the program as a label.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}).Set(1)
}
