package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func model(t *testing.T) *kong.Node {
	t.Helper()
	parser, err := newParser(&commands{}, terminal{io.Discard, io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model.Node
}

func TestComplete(t *testing.T) {
	tests := map[string]struct {
		words []string
		want  string
	}{
		"a command":                   {[]string{"ver"}, "verify version"},
		"a command below another":     {[]string{"dlq", "res"}, "restart resume"},
		"not what is hidden":          {[]string{"completion"}, "completion"},
		"a flag":                      {[]string{"logs", "--fol"}, "--follow"},
		"a flag of a nested command":  {[]string{"dlq", "restart", "--dry"}, "--dry-run"},
		"a command to be helped with": {[]string{"help", "dlq", "res"}, "restart resume"},
		"a value":                     {[]string{"logs", "--output", ""}, "json ndjson table"},
		"a value that has begun":      {[]string{"logs", "--output", "nd"}, "ndjson"},
		"a value behind =":            {[]string{"logs", "--output", "=", "j"}, "json"},
		"a flag behind a value":       {[]string{"logs", "--label", "--x", "--fol"}, "--follow"},
		"a flag behind a switch":      {[]string{"logs", "--follow", "--outp"}, "--output"},
		"an argument":                 {[]string{"completion", ""}, "bash fish zsh"},
		"a text of any kind":          {[]string{"logs", "--label", ""}, ""},
		"what is unknown":             {[]string{"nothing", "--lab"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(complete(model(t), test.words), " "); got != test.want {
				t.Errorf("complete(%q) = %q, want %q", test.words, got, test.want)
			}
		})
	}
}
