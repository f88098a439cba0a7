package e2e

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const readme = "../README.md"

// TestReadme runs the commands of the README that are marked with an HTML comment
// in the line before them, such as
//
//	<!-- test:first-message shows DELIVERED -->
//	```sh
//	curl ...
//	```
//
// each against a development server of its own, in the root of the repository and with
// the program in the path. What the command line says to the server, and is told, has to be
// as the description of the API has it. A block has to print what its mark says that it shows.
func TestReadme(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := markedBlocks(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		t.Run(name, func(t *testing.T) { runBlock(t, blocks[name]) })
	}
}

// The addresses where the README expects the server, and has an endpoint listen.
var (
	defaultAddress  = regexp.MustCompile(`(localhost|127\.0\.0\.1):8080`)
	endpointAddress = regexp.MustCompile(`127\.0\.0\.1:3000`)
)

func runBlock(t *testing.T, b block) {
	t.Helper()
	_, c := startDev(t, "--port", "0")
	script := defaultAddress.ReplaceAllLiteralString(b.script, strings.TrimPrefix(described(t, c.base), "http://"))
	script = endpointAddress.ReplaceAllLiteralString(script, "127.0.0.1:"+freePort(t))
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = ".."
	cmd.Env = append(bareEnvironment(), "PATH="+programPath(t)+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = patience // for what a block leaves behind
	output, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // that, if it is still there
	}
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, output)
	}
	if !strings.Contains(string(output), b.shows) {
		t.Errorf("the output does not show %s:\n%s\n%s", b.shows, script, output)
	}
}

// programPath returns a directory that has the program under its name.
func programPath(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(directory, "posthaste")); err != nil {
		t.Fatal(err)
	}
	return directory
}

var (
	mark        = regexp.MustCompile(`<!-- *test:.*-->`)
	markedBlock = regexp.MustCompile("(?s)<!-- test:([a-z0-9-]+) shows ([^\n]+) -->\n+```sh\n(.*?)```")
)

// block is a marked block of shell commands.
type block struct{ shows, script string }

// markedBlocks returns the shell commands of a Markdown text that are marked to
// be tested, by name. It is an error if there are none, or a mark without any
// behind it, which would be a test that is silently gone, or two of a name.
func markedBlocks(markdown string) (map[string]block, error) {
	marks := len(mark.FindAllString(markdown, -1))
	matches := markedBlock.FindAllStringSubmatch(markdown, -1)
	if marks == 0 || marks != len(matches) {
		return nil, fmt.Errorf("%d blocks of shell commands are marked to be tested, and %d of the marks have a block behind them",
			marks, len(matches))
	}
	blocks := make(map[string]block)
	for _, match := range matches {
		if _, taken := blocks[match[1]]; taken {
			return nil, fmt.Errorf("two marked blocks have the name %s", match[1])
		}
		blocks[match[1]] = block{match[2], match[3]}
	}
	return blocks, nil
}

func TestMarkedBlocks(t *testing.T) {
	onceOnly(t)
	const one = "<!-- test:one shows it -->\n```sh\nfirst\nsecond\n```\n"
	tests := map[string]struct {
		markdown string
		want     map[string]block // nil: an error
	}{
		"blocks and others": {
			"# Title\n```sh\nnot marked\n```\n" + one + "text\n<!-- test:two shows \"that\" -->\n\n```sh\nthird\n```\n<!-- a comment -->\n",
			map[string]block{"one": {"it", "first\nsecond\n"}, "two": {`"that"`, "third\n"}},
		},
		"two of a name":             {one + one, nil},
		"nothing":                   {"", nil},
		"no mark":                   {"```sh\nnot marked\n```\n", nil},
		"a mark alone":              {one + "<!-- test:two shows \"that\" -->\ntext\n", nil},
		"a block of no shell":       {one + "<!-- test:two shows \"that\" -->\n```json\n{}\n```\n", nil},
		"a mark without name":       {one + "<!-- test: -->\n```sh\nthird\n```\n", nil},
		"a block without end":       {one + "<!-- test:two shows \"that\" -->\n```sh\nthird\n", nil},
		"a mark that shows nothing": {one + "<!-- test:two -->\n```sh\nthird\n```\n", nil},
		"a mark spelled wrong":      {one + "<!--test:two-->\n```sh\nthird\n```\n", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := markedBlocks(test.markdown)
			if !maps.Equal(got, test.want) || (err == nil) != (test.want != nil) {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}
