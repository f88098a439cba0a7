package main

import (
	"math"
	"slices"
	"time"
)

// reading is one number that a round came to.
type reading struct {
	name, unit string
	value      float64
	counted    bool // rounds are added up, and no ratio is taken
}

// measured makes a reading of which the median of all rounds is reported.
func measured(name, unit string, value float64) reading {
	return reading{name: name, unit: unit, value: value}
}

// throughput is the name of how many messages were delivered a second.
const throughput = "throughput"

// unitMessages is the unit of what is counted.
const unitMessages = "messages"

// counted makes a reading of which the sum of all rounds is reported.
func counted(name string, value int) reading {
	return reading{name: name, unit: unitMessages, value: float64(value), counted: true}
}

// readings returns what can be said of any load: what became of its messages,
// and how fast.
func (t tally) readings() []reading {
	return []reading{
		counted("accepted", t.accepted),
		counted("lost", t.lost),
		counted("delivered again", t.duplicates),
		measured(throughput, "messages/s", perSecond(t.delivered, t.window)),
		measured("accepted, p50", "ms", milliseconds(quantile(t.accepting, 0.50))),
		measured("accepted, p99", "ms", milliseconds(quantile(t.accepting, 0.99))),
		measured("delivered, p50", "ms", milliseconds(quantile(t.delivering, 0.50))),
		measured("delivered, p90", "ms", milliseconds(quantile(t.delivering, 0.90))),
		measured("delivered, p99", "ms", milliseconds(quantile(t.delivering, 0.99))),
		measured("delivered, max", "ms", milliseconds(quantile(t.delivering, 1))),
	}
}

// compare joins the rounds of both sides, measure by measure, in the order in
// which they first appear. A measure that one side lacks has no ratio.
func compare(baseline, subject [][]reading) []Measure {
	var measures []Measure
	known := map[string]bool{}
	for _, round := range slices.Concat(baseline, subject) {
		for _, r := range round {
			if !known[r.name] {
				known[r.name] = true
				measures = append(measures, newMeasure(r, baseline, subject))
			}
		}
	}
	return measures
}

// valuesOf returns the values of a reading in all rounds of a side.
func valuesOf(rounds [][]reading, name string) (values []float64) {
	for _, round := range rounds {
		for _, r := range round {
			if r.name == name {
				values = append(values, r.value)
			}
		}
	}
	return values
}

// newMeasure makes a measure of a reading's kind.
func newMeasure(kind reading, baseline, subject [][]reading) Measure {
	m := Measure{
		Name: kind.name, Unit: kind.unit,
		Baseline: kind.summary(valuesOf(baseline, kind.name)),
		Subject:  kind.summary(valuesOf(subject, kind.name)),
	}
	if !kind.counted {
		m.Ratio = ratio(baseline, subject, kind.name)
	}
	return m
}

// summary is the sum or the median of the values of a reading, nil if there are none.
func (r reading) summary(values []float64) *float64 {
	switch {
	case len(values) == 0:
		return nil
	case r.counted:
		return new(sum(values))
	default:
		return new(median(values))
	}
}

// ratio is the median of the ratios of each round, for what disturbs a round disturbs both
// sides of it. Of rounds that are no pairs it is that of their medians. It is nil where there
// is nothing to divide, or to divide by.
func ratio(baseline, subject [][]reading, name string) *float64 {
	if ratios, ok := ratiosOfRounds(baseline, subject, name); ok {
		return new(median(ratios))
	}
	of, by := valuesOf(subject, name), valuesOf(baseline, name)
	if len(of) == 0 || len(by) == 0 || median(by) == 0 {
		return nil
	}
	return new(median(of) / median(by))
}

// ratiosOfRounds returns the ratio of each round that has the reading. ok is false if there is
// none, or a round of one side has it more or less often than that of the other, or as 0.
func ratiosOfRounds(baseline, subject [][]reading, name string) (ratios []float64, ok bool) {
	if len(baseline) != len(subject) {
		return nil, false
	}
	for round := range baseline {
		of, by := valuesOf(subject[round:round+1], name), valuesOf(baseline[round:round+1], name)
		if len(of) != len(by) || slices.Contains(by, 0) {
			return nil, false
		}
		for i := range by {
			ratios = append(ratios, of[i]/by[i])
		}
	}
	return ratios, len(ratios) > 0
}

// median returns the value in the middle, or the mean of the two there.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func sum(values []float64) float64 {
	var total float64
	for _, v := range values {
		total += v
	}
	return total
}

// quantile returns the smallest of the ascending durations that a share of them
// does not exceed: 0.5 for the median, 1 for the largest. It is 0 if there is
// none.
func quantile(ascending []time.Duration, share float64) time.Duration {
	if len(ascending) == 0 {
		return 0
	}
	rank := int(math.Ceil(share * float64(len(ascending))))
	return ascending[max(rank, 1)-1]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func perSecond(count int, window time.Duration) float64 {
	if window <= 0 {
		return 0
	}
	return float64(count) / window.Seconds()
}
