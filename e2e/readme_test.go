package e2e

import (
	"bytes"
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
	"time"
)

// The pages whose marked blocks are run.
var readme = []string{"../README.md", "../docs/guides/*.md"}

// TestReadme runs the blocks of the README and the guides that are marked with an HTML comment
// in the line before them, such as
//
//	<!-- test:first-message shows DELIVERED -->
//	```sh
//	curl ...
//	```
//
// each against a development server of its own. Shell commands run in the root of the repository
// with the program in the path; what the command line says to the server, and is told, has to be
// as the description of the API has it. Programs run where the SDKs of their language are installed,
// with the environment that the server prints, until they print what their mark says that it shows.
func TestReadme(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	for _, pattern := range readme {
		files, err := filepath.Glob(pattern)
		if err != nil || files == nil {
			t.Fatalf("%s: %v, %d files", pattern, err, len(files))
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			blocks, err := markedBlocks(string(text))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, name := range slices.Sorted(maps.Keys(blocks)) {
				t.Run(name, func(t *testing.T) { runBlock(t, blocks[name]) })
			}
		}
	}
}

// The addresses where the README expects the server, and has an endpoint listen.
var (
	defaultAddress  = regexp.MustCompile(`(localhost|127\.0\.0\.1):8080`)
	endpointAddress = regexp.MustCompile(`127\.0\.0\.1:3000`)
	endpointPort    = regexp.MustCompile(`(listen\(|"127\.0\.0\.1", )3000\)`)
)

func runBlock(t *testing.T, b block) {
	t.Helper()
	s, c := startDev(t, "--port", "0")
	port := freePort(t)
	script := endpointAddress.ReplaceAllLiteralString(b.script, "127.0.0.1:"+port)
	script = endpointPort.ReplaceAllString(script, "${1}"+port+")")
	var cmd *exec.Cmd
	if b.language != "sh" {
		cmd = program(t, b.language, script)
		cmd.Env = append(cmd.Env, printedEnvironment(t, s)...)
	} else {
		c.base = described(t, c.base)
		script = defaultAddress.ReplaceAllLiteralString(script, strings.TrimPrefix(c.base, "http://"))
		cmd = exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
		cmd.Dir = ".."
		cmd.Env = append(bareEnvironment(), "QSTASH_URL="+c.base, "PATH="+programPath(t)+":"+os.Getenv("PATH"))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = patience // for what a block leaves behind
	end := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	output := &sought{text: b.shows, found: func() {}}
	if b.language != "sh" { // it serves until it is ended
		output.found = end
	}
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(patience, end)
	defer watchdog.Stop()
	err := cmd.Wait()
	end() // what it left behind
	if err != nil && b.language == "sh" {
		t.Fatalf("%v\n%s\n%s", err, script, output)
	}
	if !strings.Contains(output.String(), b.shows) {
		t.Errorf("the output does not show %s: %v\n%s\n%s", b.shows, err, script, output)
	}
}

// program returns the command that runs a program.
func program(t *testing.T, language, script string) (cmd *exec.Cmd) {
	t.Helper()
	switch language {
	case "ts":
		needNode(t)
		cmd = exec.CommandContext(t.Context(), "node", "--input-type=module", "--eval", script)
		cmd.Dir = sdkDirectory
		cmd.Env = bareEnvironment()
	case "go":
		source := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(source, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd = exec.CommandContext(t.Context(), "go", "run", source)
		cmd.Dir = "gosdk"
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	case "python":
		cmd = exec.CommandContext(t.Context(), "python3", "-c", script)
		cmd.Env = bareEnvironment()
	}
	return cmd
}

// printedVariable is a line that a development server prints to be pasted.
var printedVariable = regexp.MustCompile(`(?m)^\s*(?:export )?(QSTASH_\w+=\S+)$`)

// printedEnvironment returns the variables that a development server prints.
func printedEnvironment(t *testing.T, s *server) []string {
	t.Helper()
	var variables []string
	err := eventually(t, func() error {
		variables = nil
		for _, line := range printedVariable.FindAllStringSubmatch(s.output.String(), -1) {
			variables = append(variables, line[1])
		}
		if len(variables) != 4 {
			return fmt.Errorf("the server printed %d variables, not 4:\n%s", len(variables), s.output)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return variables
}

// sought is what a program prints. found is called when that has a text.
type sought struct {
	all   bytes.Buffer // no embedded one: its ReadFrom would pass Write by
	text  string
	found func()
}

// String returns what was printed.
func (s *sought) String() string { return s.all.String() }

// Write implements io.Writer.
func (s *sought) Write(p []byte) (int, error) {
	n, err := s.all.Write(p)
	if bytes.Contains(s.all.Bytes(), []byte(s.text)) {
		s.found()
	}
	return n, err
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
	markedBlock = regexp.MustCompile("(?s)<!-- test:([a-z0-9-]+) shows ([^\n]+) -->\n+```(sh|ts|go|python)\n(.*?)```")
)

// block is a marked block of shell commands, or a program.
type block struct{ shows, language, script string }

// markedBlocks returns the blocks of a Markdown text that are marked to be tested, by name. It is an
// error if there is a mark without one behind it, which would be a test that is silently gone, or
// two of a name.
func markedBlocks(markdown string) (map[string]block, error) {
	marks := len(mark.FindAllString(markdown, -1))
	matches := markedBlock.FindAllStringSubmatch(markdown, -1)
	if marks != len(matches) {
		return nil, fmt.Errorf("%d blocks are marked to be tested, and %d of the marks have a block behind them", marks, len(matches))
	}
	blocks := make(map[string]block)
	for _, match := range matches {
		if _, taken := blocks[match[1]]; taken {
			return nil, fmt.Errorf("two marked blocks have the name %s", match[1])
		}
		blocks[match[1]] = block{match[2], match[3], match[4]}
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
			"# Title\n```sh\nnot marked\n```\n" + one + "text\n<!-- test:two shows \"that\" -->\n\n```ts\nthird\n```\n<!-- a comment -->\n",
			map[string]block{"one": {"it", "sh", "first\nsecond\n"}, "two": {`"that"`, "ts", "third\n"}},
		},
		"two of a name":             {one + one, nil},
		"no mark":                   {"```sh\nnot marked\n```\n", map[string]block{}},
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
