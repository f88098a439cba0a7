package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestDeps runs .ci/deps among programs that only write down how they are called:
// nothing is installed.
func TestDeps(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	const root, user = "echo 0", "echo 1000"
	const lacks = "the tests need these Debian packages, which take apt-get and root or sudo to install: left right top\n"
	update := "apt-get update -qq\n"
	install := "apt-get install -qq --no-install-recommends -y left right top\n"
	tests := []struct {
		name     string
		programs map[string]string // what they do besides writing down their call
		fails    bool
		want     string // what was called and what was said
	}{
		{"root", map[string]string{"id": root, "apt-get": ""}, false, update + install},
		{"root has no use for sudo", map[string]string{"id": root, "apt-get": "", "sudo": `"$@"`}, false, update + install},
		{"a user with sudo", map[string]string{"id": user, "apt-get": "", "sudo": `"$@"`}, false,
			"sudo true\nsudo " + update + update + "sudo env DEBIAN_FRONTEND=noninteractive " + install + install},
		{"a user whom sudo refuses", map[string]string{"id": user, "apt-get": "", "sudo": "exit 1"}, true, "sudo true\n" + lacks},
		{"a user without sudo", map[string]string{"id": user, "apt-get": ""}, true, lacks},
		{"no Debian", map[string]string{"id": root}, true, lacks},
		{"packages that are not to be had", map[string]string{"id": root, "apt-get": "[ $1 = update ] || exit 100"}, true, update + install},
		{"nothing is missing", map[string]string{"id": user, "side": "", "peak": ""}, false, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			output, err := runDeps(t, test.programs)
			if output != test.want || (err != nil) != test.fails {
				t.Errorf("%v\n%s, want\n%s", err, output, test.want)
			}
		})
	}
}

// runDeps runs the script where two packages of a program and one of another may
// be missing, and returns what was called and said.
func runDeps(t *testing.T, programs map[string]string) (output string, err error) {
	t.Helper()
	directory := t.TempDir()
	for name, does := range programs {
		call := "echo " + name + ` "$@"` + "\n"
		if name == "id" {
			call = ""
		}
		makeProgram(t, directory, name, call+does)
	}
	makeProgram(t, directory, "npm", "") // called for modules that are out of date
	for _, name := range []string{"bash", "sh", "env", "dirname", "true"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(directory, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("../.ci/deps", "side=left,right", "peak=top")
	cmd.Env = []string{"PATH=" + directory}
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func makeProgram(t *testing.T, directory, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(directory, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}
