package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVulnerabilities runs .ci/vulnerabilities with a go command that only says what the
// search would.
func TestVulnerabilities(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	database := t.TempDir()
	if err := os.Mkdir(filepath.Join(database, "index"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(database, "index", "modules.json"), []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	const unreachable = "echo govulncheck: fetching vulnerabilities: no such host; exit 1"
	tests := []struct {
		name, search, database string
		fails                  bool
		want                   string
	}{
		{"none", "echo No vulnerabilities found.", "", false, "No vulnerabilities found."},
		{"some", "echo Vulnerability 1; exit 3", "", true, "Vulnerability 1"},
		{"a tree that does not compile", "echo cannot load; exit 1", "", true, "cannot load"},
		{"the database cannot be reached", unreachable, "", false, "NOT CHECKED for vulnerabilities"},
		{"a copy of the database", `echo "$@"`, database, false, "-db file://" + database + " ./..."},
		{"a copy that cannot be read", unreachable, database, true, "fetching vulnerabilities"},
		{"no copy of the database", "echo searched", t.TempDir(), true, "it has no index/modules.json"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			programs := t.TempDir()
			makeProgram(t, programs, "go", test.search)
			cmd := exec.Command("../.ci/vulnerabilities")
			cmd.Env = append(os.Environ(), "GO="+filepath.Join(programs, "go"), "GOVULNDB="+test.database)
			output, err := cmd.CombinedOutput()
			if (err != nil) != test.fails || !strings.Contains(string(output), test.want) {
				t.Errorf("%v: %s, want %q", err, output, test.want)
			}
		})
	}
}
