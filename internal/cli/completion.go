package cli

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
	Words []string `arg:"" optional:"" passthrough:"" help:"The words so far; the last one may be incomplete."`
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
		switch name, isFlag := strings.CutPrefix(word, "--"); {
		case flag != nil:
			flag = nil
		case isFlag:
			flag = valueFlag(node, name)
		default:
			child := slices.IndexFunc(node.Children, func(child *kong.Node) bool { return child.Name == word })
			if child >= 0 && (node.Parent != nil || word != "help") { // after help comes a command of the program
				node = node.Children[child]
			}
		}
	}
	found := slices.DeleteFunc(candidates(node, flag, last), func(word string) bool { return word == "" || !strings.HasPrefix(word, last) })
	slices.Sort(found)
	return slices.Compact(found)
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

// candidates returns the values of a flag, or else the flags, or the commands below a command
// and the values of its arguments.
func candidates(node *kong.Node, flag *kong.Flag, last string) (words []string) {
	switch {
	case flag != nil:
		return strings.Split(flag.Enum, ",")
	case strings.HasPrefix(last, "-"):
		for _, flag := range slices.Concat(node.AllFlags(true)...) {
			words = append(words, "--"+flag.Name)
		}
		return words
	}
	for _, child := range node.Children {
		if !child.Hidden {
			words = append(words, child.Name)
		}
	}
	for _, argument := range node.Positional {
		words = append(words, strings.Split(argument.Enum, ",")...)
	}
	return words
}
