package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDatabaseCommands checks a database beside its server and after it.
func TestDatabaseCommands(t *testing.T) {
	needPostgres(t)
	t.Parallel()
	database := shared.databaseFor(t, filepath.Join(t.TempDir(), "data"))
	run := func(wantFailure bool, want string, args ...string) {
		t.Helper()
		output, err := exec.Command(binary, append(args, "--database-url", database)...).CombinedOutput()
		if (err != nil) != wantFailure || !strings.Contains(string(output), want) {
			t.Errorf("posthaste %q = %v, want a failure: %t, and %q in\n%s", args, err, wantFailure, want, output)
		}
	}
	run(true, "no server has ever used this database", "check")
	served(t, databaseFlags(database), func(c *client) {
		publishSome(t, c, newSink(t))
		run(false, `"problems":[]`, "check", "--output", "json")
		run(false, "users with fewer  0", "schema", "show")
	})
	run(false, "problems        0", "check")
}
