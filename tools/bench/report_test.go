package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the expected reports in testdata")

// sample is a report with a bit of everything.
func sample() *Report {
	return &Report{
		Version:   "1.2.3",
		StartedAt: time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC),
		Machine:   Machine{OS: "linux", Arch: "amd64", Processors: 2, Go: "go1.26", SyncP50: 0.1494, SyncP99: 3.86},
		Load:      Load{Clients: 32, Hosts: 1, RoundSeconds: 10, Rounds: 3, BodyBytes: 512, Rate: 100, Backlog: 100_000},
		Results: []Result{{
			Scenario: "publish",
			Baseline: "relay",
			Subject:  "posthaste",
			Measures: []Measure{
				{Name: "accepted", Unit: "messages", Baseline: new(340_000.0), Subject: new(170_000.0)},
				{Name: "throughput", Unit: "messages/s", Baseline: new(34_000.4), Subject: new(17_000.0), Ratio: new(0.49999)},
				{Name: "delivered, p50", Unit: "ms", Baseline: new(0.94), Subject: new(1.881), Ratio: new(2.0)},
				{Name: "resident memory", Unit: "MB", Subject: new(31.26)},
			},
		}, {
			Scenario: "backlog",
			Baseline: "empty",
			Subject:  "backlog",
			Measures: []Measure{{Name: "start-up", Unit: "ms", Baseline: new(150.2), Subject: new(180.9), Ratio: new(1.2044)}},
		}},
	}
}

func compareFile(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not what is expected:\n%s", name, diff)
	}
}

func TestReportAsTable(t *testing.T) {
	var table bytes.Buffer
	if err := sample().WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	compareFile(t, "report.txt", table.Bytes())
}

// TestTableOfSeveralSubjects has a column for each that is compared with the same.
func TestTableOfSeveralSubjects(t *testing.T) {
	measures := func(subject, ratio float64) []Measure {
		return []Measure{{Name: "start", Unit: "ms", Baseline: new(100.0), Subject: &subject, Ratio: &ratio}}
	}
	report := &Report{Results: []Result{
		{Scenario: "logs", Baseline: "1 entry", Subject: "2 entries", Measures: measures(110, 1.1)},
		{Scenario: "logs", Baseline: "1 entry", Subject: "3 entries", Measures: measures(120, 1.2)},
		{Scenario: "logs", Baseline: "another", Subject: "3 entries", Measures: measures(130, 1.3)},
	}}
	var table bytes.Buffer
	if err := report.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(table.String(), "for each side\n")
	want := `
logs    unit   1 entry   2 entries   ratio   3 entries   ratio
start   ms     100       110         1.10    120         1.20

logs    unit   another   3 entries   ratio
start   ms     100       130         1.30
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table is not what is expected:\n%s", diff)
	}
}

func TestReportAsJSON(t *testing.T) {
	text, err := json.MarshalIndent(sample(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	compareFile(t, "report.json", append(text, '\n'))
}

func TestLoadRound(t *testing.T) {
	for _, test := range []struct {
		name string
		load Load
		want string
	}{
		{"of messages", Load{RoundMessages: 500}, "500 messages"},
		{"of seconds", Load{RoundSeconds: 0.5}, "0.5s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.load.round(); got != test.want {
				t.Errorf("round = %q, want %q", got, test.want)
			}
		})
	}
}

func TestDecimal(t *testing.T) {
	for _, test := range []struct {
		value float64
		want  string
	}{
		{0, "0.000"},
		{3, "3.00"},
		{0.0376, "0.038"},
		{0.49999, "0.500"},
		{1.2044, "1.20"},
		{31.26, "31.3"},
		{150.7, "151"},
		{34_000.4, "34000"},
	} {
		if got := decimal(test.value); got != test.want {
			t.Errorf("decimal(%v) = %q, want %q", test.value, got, test.want)
		}
	}
}
