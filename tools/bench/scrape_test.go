package main

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
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

// TestAwaitAttempts looks again until there are as many as are wanted.
func TestAwaitAttempts(t *testing.T) {
	looks := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		looks++
		_, _ = fmt.Fprintf(w, "%s %d\n", metricAttempts, 10*looks)
	}))
	defer server.Close()
	c := &child{host: strings.TrimPrefix(server.URL, "http://")}
	if err := c.awaitAttempts(t.Context(), 30); err != nil || looks != 3 {
		t.Errorf("awaitAttempts = %v after %d looks, want 3", err, looks)
	}
	server.Close()
	if err := c.awaitAttempts(t.Context(), 40); err == nil {
		t.Error("a server that does not answer is waited for no longer, and no error says so")
	}
}
