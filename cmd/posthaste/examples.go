package main

import "strings"

// examples is the text behind the flags of a command's help: lines to copy.
func examples(lines ...string) string {
	return "Examples:\n\n  " + strings.Join(lines, "\n  ")
}
