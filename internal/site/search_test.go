package site

import (
	"strings"
	"testing"
)

// TestSnippet has Kelvin signs before the word, whose lower case is shorter.
func TestSnippet(t *testing.T) {
	text := strings.Repeat("\u212a ", 300) + "before the needle comes text"
	if got := snippet(text, lower(text), "needle"); !strings.Contains(got, "the needle comes") {
		t.Errorf("the word is not in %q", got)
	}
}
