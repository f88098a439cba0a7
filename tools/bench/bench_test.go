package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"posthaste"
)

// small are options of a run of a few hundred messages.
func small(t *testing.T) Options {
	return Options{
		Clients:    4,
		Hosts:      2,
		Messages:   100,
		Size:       64,
		Rate:       10_000,
		Rounds:     2,
		Backlog:    300,
		RunRate:    50,
		Steps:      3,
		Failed:     fewFailed,
		Entries:    []int{leastLog},
		Partitions: []int{1},
		Dir:        t.TempDir(),
		Executable: os.Args[0],
		Self:       os.Args[0],
		Version:    "test",
	}
}

// measure returns a measure of a scenario.
func measure(t *testing.T, r *Report, scenario, name string) Measure {
	t.Helper()
	for _, result := range r.Results {
		for _, m := range result.Measures {
			if result.Scenario == scenario && m.Name == name {
				return m
			}
		}
	}
	t.Fatalf("%s has no measure %q", scenario, name)
	return Measure{}
}

func TestRunMeasuresEveryMessageOfBothSides(t *testing.T) {
	options := small(t)
	// Not the others: what stands in for the server here has neither lanes nor runs.
	// The program tests run them with the real one.
	options.Scenarios = []string{"publish", "latency", "backlog"}
	var progress bytes.Buffer
	options.Progress = &progress
	report, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	var ran []string
	for _, result := range report.Results {
		ran = append(ran, result.Scenario)
	}
	if !slices.Equal(ran, options.Scenarios) {
		t.Errorf("scenarios that ran = %v, want %v", ran, options.Scenarios)
	}
	for _, scenario := range ran {
		t.Run(scenario, func(t *testing.T) {
			for name, want := range map[string]float64{"accepted": 200, "lost": 0, "delivered again": 0} {
				m := measure(t, report, scenario, name)
				if *m.Baseline != want || *m.Subject != want {
					t.Errorf("%s = %v and %v, want %v on both sides", name, *m.Baseline, *m.Subject, want)
				}
			}
			if m := measure(t, report, scenario, "throughput"); m.Ratio == nil {
				t.Error("throughput has no ratio")
			}
		})
	}
	if !strings.Contains(progress.String(), "publish, round 2 of 2") {
		t.Errorf("progress = %q, want a line for each round", &progress)
	}
}

func TestRunMeasuresWhatOnlyOneScenarioHas(t *testing.T) {
	options := small(t)
	options.Scenarios = []string{"backlog"}
	report, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if m := measure(t, report, "backlog", "start after kill"); m.Ratio == nil {
		t.Error("start after kill has no ratio")
	}
	if m := measure(t, report, "backlog", "storing the backlog"); m.Subject == nil || m.Baseline != nil {
		t.Errorf("storing the backlog = %+v, want a value of the backlog alone", m)
	}
}

func TestRunLeavesNothingBehind(t *testing.T) {
	options := small(t)
	options.Scenarios = []string{"publish"}
	if _, err := Run(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(options.Dir); err != nil || len(left) > 0 {
		t.Errorf("directory after the run: %v, %v, want it empty", left, err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	gone := errors.New("the person left")
	for _, name := range Scenarios() {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			options := small(t)
			options.Scenarios = []string{name}
			options.Messages = 0
			options.Duration = time.Hour
			options.Progress = nil
			cancel(gone)
			if _, err := Run(ctx, options); err == nil {
				t.Error("Run = nil, want an error when its context has ended")
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Options)
		want   string // of the sentence
	}{
		{"no hosts", func(o *Options) { o.Hosts = 0 }, "hosts 0"},
		{"no clients", func(o *Options) { o.Clients = 0 }, "clients 0"},
		{"negative messages", func(o *Options) { o.Messages = -1 }, "messages -1"},
		{"body without room for the stamp", func(o *Options) { o.Size = 15 }, "size 15 is too small: at least 16"},
		{"no rate", func(o *Options) { o.Rate = 0 }, "rate 0"},
		{"no rounds", func(o *Options) { o.Rounds = 0 }, "rounds 0"},
		{"no backlog", func(o *Options) { o.Backlog = 0 }, "backlog 0"},
		{"no run rate", func(o *Options) { o.RunRate = 0 }, "run rate 0"},
		{"no steps", func(o *Options) { o.Steps = 0 }, "steps 0"},
		{"fewer failed runs than there are on the other side", func(o *Options) { o.Failed = 999 }, "failed 999 is too small: at least 1000"},
		{"no time to go back to", func(o *Options) { o.Days = -1 }, "days -1 is too small: at least 0"},
		{"no log", func(o *Options) { o.Entries = nil }, "entries have no value"},
		{"too short a log", func(o *Options) { o.Entries = []int{9999} }, "entries 9999 is too small: at least 10000"},
		{"too short a log to compare with", func(o *Options) { o.Entries = []int{999, 10000} }, "entries 999 is too small: at least 1000"},
		{"a longer log before a shorter one", func(o *Options) { o.Entries = []int{20000, 10000} }, "entries 10000 follow 20000"},
		{"rounds without end", func(o *Options) { o.Messages = 0 }, "duration 0s"},
		{"unknown scenario", func(o *Options) { o.Scenarios = []string{"speed"} }, `scenario "speed" is not known: publish, latency, backlog, neighbours, overload, runs, restart, dlq, logs, follow, delay, cluster are`},
	} {
		t.Run(test.name, func(t *testing.T) {
			options := small(t)
			test.change(&options)
			_, err := Run(t.Context(), options)
			if posthaste.ErrorCode(err) != posthaste.CodeInvalid || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Run = %v, want an invalid error with %q", err, test.want)
			}
		})
	}
}

func TestRunNeedsItsDirectory(t *testing.T) {
	options := small(t)
	options.Dir = filepath.Join(options.Dir, "missing")
	if _, err := Run(t.Context(), options); err == nil {
		t.Error("Run = nil, want an error")
	}
}

func TestRunNeedsItsProgram(t *testing.T) {
	options := small(t)
	options.Executable = "/does/not/exist"
	if _, err := Run(t.Context(), options); err == nil {
		t.Error("Run = nil, want an error")
	}
}
