package bench

import (
	"maps"
	"strings"
	"testing"
)

func TestParseMetrics(t *testing.T) {
	tests := []struct {
		name, text string
		want       map[string]float64
	}{
		{"nothing", "", map[string]float64{}},
		{"comments", "# HELP a b\n# TYPE a counter\n", map[string]float64{}},
		{"values", "a 1\nb_total 2.5e+06\n", map[string]float64{"a": 1, "b_total": 2_500_000}},
		{"with labels", "a{x=\"y z\"} 1\nb 2\n", map[string]float64{"b": 2}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseMetrics(strings.NewReader(test.text))
			if err != nil || !maps.Equal(got, test.want) {
				t.Errorf("parseMetrics = %v, %v, want %v", got, err, test.want)
			}
		})
	}
	if _, err := parseMetrics(strings.NewReader("a b\n")); err == nil {
		t.Error("a value that is no number passes")
	}
}
