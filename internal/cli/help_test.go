package cli

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// leaves returns the commands that do something, by their paths.
func leaves(t *testing.T) map[string]*kong.Node {
	t.Helper()
	parser, err := newParser(&commands{}, terminal{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*kong.Node{}
	for _, leaf := range parser.Model.Leaves(true) {
		found[pathOf(leaf)] = leaf
	}
	return found
}

// TestEveryCommandWritesJSON checks that what a command tells can be read by a script.
func TestEveryCommandWritesJSON(t *testing.T) {
	exempt := map[string]string{
		"dev":        "runs until a signal; its first lines are read by SDKs",
		"serve":      "runs until a signal",
		"completion": "prints a script for a shell",
		"mcp":        "speaks a protocol",
		"help":       "is for people",
	}
	for path, leaf := range leaves(t) {
		output := slices.IndexFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == "output" })
		_, isExempt := exempt[path]
		switch {
		case isExempt != (output < 0):
			t.Errorf("%s: has --output: %v, exempt: %v", path, output >= 0, isExempt)
		case output >= 0 && !slices.Contains(leaf.Flags[output].EnumSlice(), "json"):
			t.Errorf("%s: --output is one of %s, want json among them", path, leaf.Flags[output].Enum)
		}
	}
}

// TestExamples checks that each command has command lines to copy, and that they are
// right.
func TestExamples(t *testing.T) {
	t.Setenv("QSTASH_CURRENT_SIGNING_KEY", devUsers[0].keys.Current) // there is none in an example
	t.Setenv("SIGNATURE", "x")
	t.Setenv("HOSTED_TOKEN", "x")
	all, left := leaves(t), strings.Count(strings.TrimSpace(examples), "\n")+1
	for path, leaf := range all {
		if path == "help" {
			continue
		}
		lines := examplesOf(leaf)
		if left -= len(lines); len(lines) == 0 {
			t.Errorf("%s: no examples", path)
		}
		for _, line := range lines {
			parser, err := newParser(&commands{}, terminal{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parser.Parse(wordsOf(t, line)); err != nil && !strings.Contains(line, "--config") { // whose file is not there
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	if left > 0 {
		t.Errorf("%d examples are of no command", left)
	}
}

// wordsOf returns the arguments that a shell makes of a command line, without what the
// shell keeps for itself.
func wordsOf(t *testing.T, line string) []string {
	t.Helper()
	line, _, _ = strings.Cut(line, " > ")
	out, err := exec.Command("sh", "-c", `posthaste() { printf '%s\n' "$@"; }; `+line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}
