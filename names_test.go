package posthaste_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestNames compares the files that say where the project is published with deploy/names.env,
// from which `make names` writes them.
func TestNames(t *testing.T) {
	names := readFile(t, "deploy/names.env")
	for name, files := range map[string][]string{
		"REPOSITORY": {"README.md", "CONTRIBUTING.md", "deploy/helm/posthaste/Chart.yaml", "deploy/prometheus/alerts.yaml", "deploy/grafana/posthaste.json"},
		"IMAGE":      {"README.md", "compose.yaml", "deploy/helm/posthaste/values.yaml"},
	} {
		line := regexp.MustCompile(`(?m)^` + name + `=(\S+)$`).FindStringSubmatch(names)
		if line == nil {
			t.Fatalf("deploy/names.env does not set %s", name)
		}
		for _, file := range files {
			if !strings.Contains(readFile(t, file), line[1]) {
				t.Errorf("%s does not contain %s: run `make names`", file, line[1])
			}
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
