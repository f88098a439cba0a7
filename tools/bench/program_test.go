package main

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// TestProgram measures the program that -posthaste names, in every scenario that needs no
// database: no message is lost or comes twice, and each table has what it is about.
func TestProgram(t *testing.T) {
	if *posthasteProgram == "" {
		t.Skip("give -posthaste PROGRAM")
	}
	options := small(t)
	options.Executable, options.Self = *posthasteProgram, buildSelf(t)
	options.Messages, options.Rounds, options.Rate = 50, 1, 200
	options.Backlog, options.Finished, options.Sleeping, options.Failed, options.Entries, options.Days = 100, 200, 100, 1000, []int{10_000}, 40
	report, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, result := range report.Results {
		for _, m := range result.Measures {
			names = append(names, m.Name)
			if (m.Name == "lost" || m.Name == "delivered again") && (m.Baseline == nil || m.Subject == nil || *m.Baseline+*m.Subject != 0) {
				t.Errorf("%s: %s is not 0 on both sides", result.Scenario, m.Name)
			}
		}
	}
	for _, name := range []string{
		"accepted", "lost", "delivered again", "disk, compacted", "restarted by cursor", "messages by label and status",
		"retry messages by url", "messages, oldest first, nine tenths deleted", "fifty callers, from the middle", "exported",
		"read by queries meanwhile", "delivered beside queries, p99, of alone",
	} {
		if !slices.Contains(names, name) {
			t.Errorf("nothing is measured as %q", name)
		}
	}
	var table bytes.Buffer
	if err := report.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	t.Log(table.String())
	options.Scenarios, options.Before = []string{"publish", "latency"}, *posthasteProgram
	report, err = Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range report.Results {
		if result.Baseline != "before" || result.Subject != "posthaste" {
			t.Errorf("%s compares %s with %s, want posthaste with before", result.Scenario, result.Subject, result.Baseline)
		}
	}
}

// buildSelf builds this program, which is the relay and the readers as well.
func buildSelf(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/bench"
	command := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	return path
}
