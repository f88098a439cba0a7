package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// freshness is how long metrics that were collected are shown again: anybody may ask for
// them, and to collect them asks the database.
const freshness = time.Second

// Shared returns a gatherer that collects at most once at a time and once a second, for all
// who ask.
func Shared(gatherer prometheus.Gatherer) prometheus.Gatherer {
	return &shared{gatherer: gatherer, turn: make(chan struct{}, 1)}
}

type shared struct {
	gatherer prometheus.Gatherer

	turn     chan struct{} // holds one while metrics are collected; who waits gets what was collected
	at       time.Time     // when that was done; zero: never
	families []*dto.MetricFamily
	err      error
}

// Gather implements prometheus.Gatherer. What it returns must not be changed.
func (s *shared) Gather() ([]*dto.MetricFamily, error) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.at.IsZero() || time.Since(s.at) >= freshness {
		s.families, s.err = s.gatherer.Gather()
		s.at = time.Now()
	}
	return s.families, s.err
}
