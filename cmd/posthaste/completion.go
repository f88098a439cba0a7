package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCommand prints what a shell runs to complete our command lines.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell: bash, zsh or fish."`
}

// The scripts leave to the program what can come next, and to the shell, which knows
// files, what the program does not know.
var completionScripts = map[string]string{
	"bash": `_posthaste() {
	local IFS=$'\n'
	COMPREPLY=($(posthaste completion-words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _posthaste posthaste
`,
	"zsh": `#compdef posthaste
_posthaste() {
	local -a found
	found=("${(@f)$(posthaste completion-words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ -n "$found[1]" ]]; then compadd -- $found; else _files; fi
}
compdef _posthaste posthaste
`,
	"fish": `complete -c posthaste -a '(posthaste completion-words -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
}

// Run prints the script of the shell.
func (c *completionCommand) Run(t terminal) error {
	_, err := fmt.Fprint(t.Out, completionScripts[c.Shell])
	return err
}

// completionWords prints what a command line can go on with, for the scripts.
type completionWords struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"The words so far; the last one is not complete."`
}

// Run prints a word a line.
func (c *completionWords) Run(t terminal, parsed *kong.Context) error {
	for _, word := range complete(parsed.Model.Node, c.Words) {
		if _, err := fmt.Fprintln(t.Out, word); err != nil {
			return err
		}
	}
	return nil
}

// complete returns the words that can stand in the place of the last one: values of the
// flag before it, flags, or commands. It is empty where any text can stand.
func complete(node *kong.Node, words []string) []string {
	words = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "--" || word == "=" })
	if len(words) == 0 {
		words = []string{""}
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	var flag *kong.Flag // that the next word is a value of
	for _, word := range before {
		if flag != nil {
			flag = nil
			continue
		}
		if name, isFlag := strings.CutPrefix(word, "--"); isFlag {
			flag = valueFlag(node, name)
		} else if child := childOf(node, word); child != nil && !isHelp(child) {
			node = child
		}
	}
	switch {
	case flag != nil:
		return startingWith(last, strings.Split(flag.Enum, ","))
	case strings.HasPrefix(last, "-"):
		return startingWith(last, flagNames(node))
	default:
		return startingWith(last, commandNames(node))
	}
}

// valueFlag returns the flag of a name if a value has to follow it.
func valueFlag(node *kong.Node, name string) *kong.Flag {
	for _, flag := range slices.Concat(node.AllFlags(true)...) {
		if flag.Name == name && !flag.IsBool() {
			return flag
		}
	}
	return nil
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// isHelp reports whether a command is help: what follows it is a command of the program.
func isHelp(node *kong.Node) bool { return node.Parent.Parent == nil && node.Name == "help" }

func flagNames(node *kong.Node) []string {
	var names []string
	for _, flag := range slices.Concat(node.AllFlags(true)...) {
		names = append(names, "--"+flag.Name)
	}
	return names
}

// commandNames returns the commands below a command, or what its first argument can be.
func commandNames(node *kong.Node) []string {
	var names []string
	for _, child := range node.Children {
		if !child.Hidden {
			names = append(names, child.Name)
		}
	}
	for _, argument := range node.Positional {
		names = append(names, strings.Split(argument.Enum, ",")...)
	}
	return names
}

func startingWith(prefix string, words []string) []string {
	var found []string
	for _, word := range words {
		if word != "" && strings.HasPrefix(word, prefix) {
			found = append(found, word)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
