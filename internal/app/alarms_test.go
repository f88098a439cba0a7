package app

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
