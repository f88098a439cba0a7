package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// agent is a program for scripts: agent FLAGS [TOOL ARGUMENTS]... starts posthaste mcp with the
// flags, which are one argument, as clients of the protocol do. It prints which tools there are
// and what each call answers. CONFIRM in arguments is the code of the answer before.
func agent() {
	if err := callTools(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func callTools(flags string, calls []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	command := exec.Command("posthaste", append([]string{"mcp"}, strings.Fields(flags)...)...)
	command.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		fmt.Println("tool", tool.Name, tool.Annotations.ReadOnlyHint)
	}
	code := ""
	for ; len(calls) > 1; calls = calls[2:] {
		arguments := json.RawMessage(strings.ReplaceAll(calls[1], "CONFIRM", code))
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: calls[0], Arguments: arguments})
		if err != nil {
			return err
		}
		text := result.Content[0].(*mcp.TextContent).Text
		fmt.Println(calls[0], result.IsError, text)
		var answer struct{ Confirm string }
		_ = json.Unmarshal([]byte(text), &answer) // an error is a text
		code = answer.Confirm
	}
	return nil
}

// TestLinesThatAreNoMessages checks that they are answered, and that the others are read.
func TestLinesThatAreNoMessages(t *testing.T) {
	const one, several = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n", `[{"jsonrpc":"2.0","id":2,"method":"ping"}]` + "\n"
	var read, answered strings.Builder
	if err := passMessages(&read, strings.NewReader(one+"{oops\n\n{}\n[{}]\n"+several+"oops"), &answered); err != io.EOF {
		t.Fatal(err)
	}
	if want := one + "\n" + several; read.String() != want {
		t.Errorf("read %q, want %q", &read, want)
	}
	codes := regexp.MustCompile(`"code":(-\d+)`).FindAllString(answered.String(), -1)
	if want := []string{`"code":-32700`, `"code":-32600`, `"code":-32600`, `"code":-32700`}; !slices.Equal(codes, want) {
		t.Errorf("answered %s, want %v", &answered, want)
	}
}

// TestCodesOfCalls checks that a code serves the call that it was given for, once, and in time.
func TestCodesOfCalls(t *testing.T) {
	b := &toolbox{shown: map[string]preparation{}}
	code := b.prepare("a")
	if b.take(code, "b") || b.take("", "a") || !b.take(code, "a") || b.take(code, "a") {
		t.Error("a code serves another call, or twice")
	}
	b.shown["late"] = preparation{"a", time.Now().Add(-time.Second)}
	if b.take("late", "a") {
		t.Error("a code serves too late")
	}
	b.shown["late"] = preparation{"a", time.Now().Add(-time.Second)}
	if b.prepare("b"); len(b.shown) != 1 {
		t.Errorf("%d codes are kept, want that of b", len(b.shown))
	}
	one, given, err := callOf("t", json.RawMessage(`{"b":1,"a":[2],"confirm":"x"}`))
	other, _, _ := callOf("t", json.RawMessage(`{"a":[2],"b":1}`))
	if err != nil || one != other || given != "x" {
		t.Errorf("%s and %s differ, code %q, %v", one, other, given, err)
	}
}
