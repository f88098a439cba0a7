package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestOffer has a server that refuses in every way: only one that says when to come back
// is a refusal, everything else is a failure of the measurement.
func TestOffer(t *testing.T) {
	tests := []struct {
		name       string
		status     int
		retryAfter string
		accepted   bool
		fails      bool
	}{
		{"accepted", http.StatusOK, "", true, false},
		{"busy", http.StatusServiceUnavailable, "2", false, false},
		{"too much of one user", http.StatusTooManyRequests, "1", false, false},
		{"busy, and no word of when", http.StatusServiceUnavailable, "", false, true},
		{"not understood", http.StatusBadRequest, "", false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if test.retryAfter != "" {
					w.Header().Set("Retry-After", test.retryAfter)
				}
				w.WriteHeader(test.status)
			}))
			defer server.Close()
			c, err := dial(t.Context(), address{host: strings.TrimPrefix(server.URL, "http://"), destinations: []string{"http://d.example"}, size: stampLen})
			if err != nil {
				t.Fatal(err)
			}
			defer c.close()
			book := newAccount()
			accepted, err := c.offer(book)
			if accepted != test.accepted || (err != nil) != test.fails {
				t.Errorf("accepted %t, %v", accepted, err)
			}
			if want := book.tally().accepted; (want == 1) != test.accepted {
				t.Errorf("%d messages are in the ledger as accepted", want)
			}
		})
	}
}

// A report of overload is held to the least, and nothing else is.
func TestCheckOverload(t *testing.T) {
	reportOf := func(scenario, measure string, ratio float64) *Report {
		return &Report{Results: []Result{{Scenario: scenario, Measures: []Measure{{Name: measure, Ratio: &ratio}}}}}
	}
	tests := map[string]struct {
		report *Report
		want   string
	}{
		"enough":           {reportOf("overload", throughput, 0.8), ""},
		"too little":       {reportOf("overload", throughput, 0.79), "under overload 0.79 of the peak was delivered: 0.8 is the least"},
		"another measure":  {reportOf("overload", "accepted, p50", 0.1), ""},
		"another scenario": {reportOf("publish", throughput, 0.1), ""},
		"not measured":     {&Report{Results: []Result{{Scenario: "overload", Measures: []Measure{{Name: throughput}}}}}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := test.report.CheckOverload(0.8); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("CheckOverload = %q, want %q", got, test.want)
			}
		})
	}
}
