package e2e

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const readme = "../README.md"

// TestReadme runs the commands of the README that are marked with an HTML comment
// in the line before them, such as
//
//	<!-- test:first-message -->
//	```sh
//	curl ...
//	```
//
// each against a development server of its own. A block may be what it takes to
// see a message delivered: it has to print that.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(readme)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("there is no README yet")
	}
	if err != nil {
		t.Fatal(err)
	}
	blocks := markedBlocks(string(text))
	if len(blocks) == 0 {
		t.Fatal("the README has no block of shell commands that is marked to be tested")
	}
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		t.Run(name, func(t *testing.T) { runBlock(t, blocks[name]) })
	}
}

// defaultAddress matches where the README expects the server.
var defaultAddress = regexp.MustCompile(`(localhost|127\.0\.0\.1):8080`)

func runBlock(t *testing.T, script string) {
	t.Helper()
	_, c := startDev(t, "--port", "0")
	script = defaultAddress.ReplaceAllLiteralString(script, strings.TrimPrefix(c.base, "http://"))
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Env = bareEnvironment()
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, output)
	}
	if !strings.Contains(string(output), "DELIVERED") {
		t.Errorf("the output does not tell of a delivery:\n%s\n%s", script, output)
	}
}

var markedBlock = regexp.MustCompile("(?s)<!-- test:([a-z0-9-]+) -->\n+```sh\n(.*?)```")

// markedBlocks returns the shell commands of a Markdown text that are marked to
// be tested, by name.
func markedBlocks(markdown string) map[string]string {
	blocks := make(map[string]string)
	for _, match := range markedBlock.FindAllStringSubmatch(markdown, -1) {
		blocks[match[1]] += match[2]
	}
	return blocks
}

func TestMarkedBlocks(t *testing.T) {
	const markdown = "# Title\n```sh\nnot marked\n```\n" +
		"<!-- test:one -->\n```sh\nfirst\nsecond\n```\ntext\n" +
		"<!-- test:two -->\n\n```sh\nthird\n```\n" +
		"<!-- test:three -->\n```json\n{}\n```\n" +
		"<!-- test:one -->\n```sh\nfourth\n```\n"
	want := map[string]string{"one": "first\nsecond\nfourth\n", "two": "third\n"}
	if got := markedBlocks(markdown); !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
