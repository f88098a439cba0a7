package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLint checks that faults are found, and where there are none, none.
func TestLint(t *testing.T) {
	tests := map[string]struct{ kind, text, fault string }{
		"a good Dockerfile":            {"dockerfile", "FROM golang:1.26 AS build\nRUN go build\n\nFROM scratch\nCOPY --from=build /a /a\n", ""},
		"an instruction that is none":  {"dockerfile", "FROM scratch\nCOPPY a b\n", "unknown instruction: COPPY"},
		"a secret in the environment":  {"dockerfile", "FROM scratch\nENV API_TOKEN=x\n", "SecretsUsedInArgOrEnv"},
		"a stage that two things are":  {"dockerfile", "FROM alpine AS a\nFROM alpine AS a\n", "DuplicateStageName"},
		"a good release":               {"goreleaser", "version: 2\nproject_name: a\n", ""},
		"a setting that is none":       {"goreleaser", "version: 2\nproject_nam: a\n", "field project_nam not found"},
		"a setting of another version": {"goreleaser", "version: 1\nbuild: {}\n", "version: 1"},
		"no file of either kind":       {"makefile", "all:\n", `kind "makefile" is not`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err := run(&out, []string{test.kind, file})
			if (err != nil) != (test.fault != "") {
				t.Fatalf("error %v, want a fault: %q\n%s", err, test.fault, &out)
			}
			if err != nil && !strings.Contains(out.String()+err.Error(), test.fault) {
				t.Errorf("want the fault %q, got %v\n%s", test.fault, err, &out)
			}
		})
	}
}
