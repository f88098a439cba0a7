package openapi_test

import (
	"regexp"
	"slices"
	"testing"

	"posthaste/internal/openapi"
)

func parse(t *testing.T) *openapi.Document {
	t.Helper()
	document, err := openapi.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// TestOperations checks what readers and generators of clients rely on in each of them.
func TestOperations(t *testing.T) {
	document := parse(t)
	ids := map[string]bool{}
	for _, o := range document.Operations() {
		t.Run(o.Method+" "+o.Path, func(t *testing.T) {
			if o.ID == "" || ids[o.ID] {
				t.Errorf("operationId %q is missing, or not the only one", o.ID)
			}
			ids[o.ID] = true
			if o.Summary == "" || len(o.Responses) == 0 {
				t.Error("no summary, or no answer")
			}
			for _, tag := range o.Tags {
				if !slices.ContainsFunc(document.Tags, func(known openapi.Tag) bool { return known.Name == tag }) {
					t.Errorf("tag %q is not in the list of tags", tag)
				}
			}
			if len(o.Tags) != 1 {
				t.Errorf("%d tags: the page shows an operation once", len(o.Tags))
			}
			checkParameters(t, o)
		})
	}
}

var placeholder = regexp.MustCompile(`\{([^}]+)\}`)

// checkParameters checks that a path and its parameters name the same.
func checkParameters(t *testing.T, o *openapi.Operation) {
	t.Helper()
	var inPath, described []string
	for _, match := range placeholder.FindAllStringSubmatch(o.Path, -1) {
		inPath = append(inPath, match[1])
	}
	for _, p := range o.Parameters {
		if p == nil {
			t.Fatal("a reference of a parameter leads nowhere")
		}
		if p.In == "path" {
			described = append(described, p.Name)
		}
	}
	slices.Sort(inPath)
	slices.Sort(described)
	if !slices.Equal(inPath, described) {
		t.Errorf("the path has %q, described are %q", inPath, described)
	}
}
