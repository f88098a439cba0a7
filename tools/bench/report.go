package main

import (
	"slices"
	"time"
)

// Report is what a run found. Its JSON form is what `--output json`
// prints; fields may be added to it, none is renamed or changes its unit.
type Report struct {
	Version   string    `json:"version"`   // of the program that was measured
	StartedAt time.Time `json:"startedAt"` // RFC 3339
	Machine   Machine   `json:"machine"`
	Load      Load      `json:"load"`
	Results   []Result  `json:"results"` // one or more for each scenario, in the order in which they ran
}

// Load is what the programs had to do.
type Load struct {
	Clients       int     `json:"clients"`            // that publish at the same time
	Hosts         int     `json:"hosts"`              // of the publish and cluster scenarios
	RoundMessages int     `json:"messages,omitempty"` // published in a round, if that was fixed
	RoundSeconds  float64 `json:"seconds,omitempty"`  // of publishing in a round, if that was fixed
	Rounds        int     `json:"rounds"`             // for each side
	BodyBytes     int     `json:"bodyBytes"`
	Rate          int     `json:"rate"`               // of the latency scenario, messages a second
	Backlog       int     `json:"backlog"`            // of the backlog scenario, messages
	Finished      int     `json:"finished,omitempty"` // of the backlog scenario, messages
	Sleeping      int     `json:"sleeping,omitempty"` // of the backlog scenario, runs
	Steps         int     `json:"steps,omitempty"`    // of a run in the runs scenario
	RunRate       int     `json:"runRate"`            // of the runs scenario, runs a second
	Failed        int     `json:"failed"`             // of the restart and dlq scenarios, dead letters of a kind
	Entries       int     `json:"entries"`            // of the logs scenario, entries of the longest log
	Days          int     `json:"days,omitempty"`     // that it spans, if that was fixed
}

// Result compares two sides in one scenario.
type Result struct {
	Scenario string    `json:"scenario"` // and, where it has several tables, which one
	Baseline string    `json:"baseline"` // what Posthaste is compared with
	Subject  string    `json:"subject"`  // what is judged
	Measures []Measure `json:"measures"`
}

// Measure is one number of both sides. The value of a side that could not be
// measured is absent.
type Measure struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"`
	Baseline *float64 `json:"baseline,omitempty"` // median of the rounds; the sum, where the unit is messages
	Subject  *float64 `json:"subject,omitempty"`  // likewise
	Ratio    *float64 `json:"ratio,omitempty"`    // Subject / Baseline; absent for counts and where Baseline is zero
}

// newReport returns a report without results. It tries the disk under dir.
func newReport(options Options, dir string) (*Report, error) {
	machine, err := examine(dir)
	if err != nil {
		return nil, err
	}
	load := Load{
		Clients:       options.Clients,
		Hosts:         options.Hosts,
		RoundMessages: options.Messages,
		Rounds:        options.Rounds,
		BodyBytes:     options.Size,
		Rate:          options.Rate,
		Backlog:       options.Backlog,
		Finished:      options.Finished,
		Sleeping:      options.Sleeping,
		Steps:         options.Steps,
		RunRate:       options.RunRate,
		Failed:        options.Failed,
		Entries:       slices.Max(options.Entries),
		Days:          options.Days,
	}
	if options.Messages == 0 {
		load.RoundSeconds = options.Duration.Seconds()
	}
	return &Report{Version: options.Version, StartedAt: time.Now(), Machine: machine, Load: load}, nil
}
