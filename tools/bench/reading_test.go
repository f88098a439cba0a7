package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuantile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, test := range []struct {
		name      string
		ascending []time.Duration
		share     float64
		want      time.Duration
	}{
		{"none", nil, 0.5, 0},
		{"smallest of all", hundred, 0, 1},
		{"one is every quantile", hundred[6:7], 0.99, 7},
		{"median of an odd number", hundred[:3], 0.5, 2},
		{"median of an even number is the lower", hundred[:4], 0.5, 2},
		{"p50 of a hundred", hundred, 0.50, 50},
		{"p90 of a hundred", hundred, 0.90, 90},
		{"p99 of a hundred", hundred, 0.99, 99},
		{"p99 of ten is the largest", hundred[:10], 0.99, 10},
		{"largest", hundred, 1, 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := quantile(test.ascending, test.share); got != test.want {
				t.Errorf("quantile(%v) = %d, want %d", test.share, got, test.want)
			}
		})
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"one", []float64{3}, 3},
		{"odd, not in order", []float64{9, 1, 5}, 5},
		{"even is the mean of the middle", []float64{1, 9, 4, 2}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			given := append([]float64(nil), test.values...)
			if got := median(test.values); got != test.want {
				t.Errorf("median = %v, want %v", got, test.want)
			}
			if diff := cmp.Diff(given, test.values); diff != "" {
				t.Errorf("median changed its argument:\n%s", diff)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	baseline := [][]reading{
		{counted("lost", 1), measured("throughput", "messages/s", 100)},
		{counted("lost", 2), measured("throughput", "messages/s", 500)},
		{counted("lost", 0), measured("throughput", "messages/s", 200)},
	}
	subject := [][]reading{
		{counted("lost", 4), measured("throughput", "messages/s", 100), measured("disk", "B", 7)},
	}
	want := []Measure{
		{Name: "lost", Unit: "messages", Baseline: new(3.0), Subject: new(4.0)},
		{Name: "throughput", Unit: "messages/s", Baseline: new(200.0), Subject: new(100.0), Ratio: new(0.5)},
		{Name: "disk", Unit: "B", Subject: new(7.0)},
	}
	if diff := cmp.Diff(want, compare(baseline, subject)); diff != "" {
		t.Error(diff)
	}
}

// TestRatio compares rounds that took both sides twice as long or not, and such as are no
// pairs.
func TestRatio(t *testing.T) {
	took := func(values ...float64) (rounds [][]reading) {
		for _, v := range values {
			rounds = append(rounds, []reading{measured("took", "ms", v)})
		}
		return rounds
	}
	without := func(rounds [][]reading) [][]reading { return append(rounds, nil) }
	for _, test := range []struct {
		name              string
		baseline, subject [][]reading
		want              *float64
	}{
		{"of each round", took(10, 20, 20), took(10, 10, 20), new(1.0)},
		{"of the medians: a round of one side is missing", took(10, 20, 30), took(10, 30), new(1.0)},
		{"of the medians: a round lacks the reading", without(took(10, 20)), took(10, 30, 30), new(2.0)},
		{"of the medians: a round has nothing to divide by", took(0, 10, 20), took(10, 10, 20), new(1.0)},
		{"rounds that neither side has", without(took(10)), without(took(20)), new(2.0)},
		{"nothing to divide", took(10), nil, nil},
		{"nothing to divide by", took(0), took(10), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, ratio(test.baseline, test.subject, "took")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCompareWithNothingHasNoRatio(t *testing.T) {
	zero, some := measured("delivered", "ms", 0), measured("delivered", "ms", 5)
	got := compare([][]reading{{zero}}, [][]reading{{some}})
	if len(got) != 1 || got[0].Ratio != nil {
		t.Errorf("compare = %+v, want one measure without a ratio", got)
	}
}

func TestTallyReadings(t *testing.T) {
	sums := tally{
		accepted: 4, delivered: 3, lost: 1, duplicates: 2,
		window:     1500 * time.Millisecond,
		accepting:  []time.Duration{1e6, 2e6, 3e6, 4e6},
		delivering: []time.Duration{5e6, 6e6, 7e6},
	}
	want := []reading{
		counted("accepted", 4),
		counted("lost", 1),
		counted("delivered again", 2),
		measured("throughput", "messages/s", 2),
		measured("accepted, p50", "ms", 2),
		measured("accepted, p99", "ms", 4),
		measured("delivered, p50", "ms", 6),
		measured("delivered, p90", "ms", 7),
		measured("delivered, p99", "ms", 7),
		measured("delivered, max", "ms", 7),
	}
	if diff := cmp.Diff(want, sums.readings(), cmp.AllowUnexported(reading{})); diff != "" {
		t.Error(diff)
	}
}

func TestPerSecondOfNoTimeIsNothing(t *testing.T) {
	if got := perSecond(5, 0); got != 0 {
		t.Errorf("perSecond = %v, want 0", got)
	}
}
