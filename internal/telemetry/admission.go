package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

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
	r := register{registerer}
	r.gaugeFunc("requests_working", "API requests being served.", func() float64 { return float64(requests().Held) })
	r.gaugeFunc("request_body_bytes", "Memory reserved for request bodies.", func() float64 { return float64(bodies().Held) })
	r.gaugeFunc("requests_waiting", "Requests waiting to be admitted.", sum(func(u admission.Usage) float64 { return float64(u.Waiting) }))
	r.counterFunc("requests_refused_total", "Requests rejected with 429 or 503 because a request, memory or user limit was reached.", sum(func(u admission.Usage) float64 { return float64(u.Refused) }))
}

// RegisterConnections registers how many clients are connected.
func RegisterConnections(registerer prometheus.Registerer, count func() int) {
	register{registerer}.gaugeFunc("connections", "Open client connections.", func() float64 { return float64(count()) })
}

func (r register) gaugeFunc(name, help string, read func() float64) {
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, read))
}

func (r register) counterFunc(name, help string, read func() float64) {
	r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, read))
}
