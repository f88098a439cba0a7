package app

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAlarmsAreExplained checks that the page for operators says of each alarm what it
// means, and of none that there is not.
func TestAlarmsAreExplained(t *testing.T) {
	ruled := namesIn(t, filepath.Join("..", "..", "deploy", "prometheus", "alerts.yaml"), `(?m)^\s+- alert: (\w+)$`)
	explained := namesIn(t, filepath.Join("..", "..", "docs", "operations.md"), "(?m)^\\| `(Posthaste\\w+)` \\|")
	if !slices.Equal(ruled, explained) || len(ruled) == 0 {
		t.Errorf("alarms in the rules: %v\nalarms in docs/operations.md: %v", ruled, explained)
	}
}

// namesIn returns what the group of a pattern matches in a file, in alphabetical order.
func namesIn(t *testing.T, file, pattern string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
		names = append(names, string(match[1]))
	}
	slices.Sort(names)
	return names
}

// TestRunbooks checks that the links of alerts and of the dashboard lead to headings of the pages.
func TestRunbooks(t *testing.T) {
	root := filepath.Join("..", "..")
	link := regexp.MustCompile(`/blob/main/(docs/[\w./-]+)#([\w-]+)`)
	notInAnchors := regexp.MustCompile(`[^a-z0-9 -]`)
	for _, file := range []string{"prometheus/alerts.yaml", "grafana/posthaste.json"} {
		text, err := os.ReadFile(filepath.Join(root, "deploy", file))
		found := link.FindAllStringSubmatch(string(text), -1)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %d links", file, err, len(found))
		}
		for _, l := range found {
			headings := namesIn(t, filepath.Join(root, l[1]), `(?m)^##+ (.+)$`)
			if !slices.ContainsFunc(headings, func(h string) bool {
				return strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(h), ""), " ", "-") == l[2]
			}) {
				t.Errorf("%s: %s has no heading #%s", file, l[1], l[2])
			}
		}
	}
}
