package posthaste_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// decidedOtherwise is the page that says what the rows of the wire contract are, and
// lists those that are not as the contract recommends.
const decidedOtherwise = "docs/compatibility.md"

// withoutTest are the rows that no test can prove, for nothing was built. Each of them
// is on the page above.
var withoutTest = []string{"U-83"}

// contractRows returns the rows of the wire contract: the rules of the two operations
// that it began with, the sections and questions about messages, what was decided about
// both, and what was decided about workflows. The sections about workflows are named by
// tests, too, and not counted here.
func contractRows() []string {
	var rows []string
	add := func(format string, from, to int) {
		for n := from; n <= to; n++ {
			rows = append(rows, fmt.Sprintf(format, n))
		}
	}
	add("4.1 rule %d", 1, 5)
	add("4.2 rule %d", 1, 4)
	add("messages 0.%d", 1, 15)
	add("messages 1.%d", 1, 6)
	add("messages 2.%d", 1, 13)
	add("messages %d", 3, 5)
	add("messages 6.%d", 1, 8)
	add("messages %d", 7, 9)
	add("U-%d", 1, 89)
	add("decision %d", 1, 36)
	add("D %d", 1, 60)
	return rows
}

// TestContractIsTested checks that every row of the contract is named by a test
// that proves it, and that no test names a row that there is not.
func TestContractIsTested(t *testing.T) {
	rows := contractRows()
	named := make(map[string]bool)
	for file, text := range testSources(t) {
		for _, row := range append(rowsIn(text), rowsOfName(file)...) {
			if !slices.Contains(rows, row) {
				t.Errorf("%s names %q, which is no row of the contract", file, row)
			}
			named[row] = true
		}
	}
	for _, row := range rows {
		switch exempt := slices.Contains(withoutTest, row); {
		case exempt && named[row]:
			t.Errorf("%s is said to have no test, and a test names it", row)
		case !exempt && !named[row]:
			t.Errorf("no test names %s", row)
		}
	}
}

// TestContractDepartures checks that the page of what is decided otherwise speaks
// of rows that there are, and of those that no test can prove.
func TestContractDepartures(t *testing.T) {
	page, err := os.ReadFile(decidedOtherwise)
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			listed = append(listed, rowsIn("contract, "+strings.TrimSpace(cells[1]))...)
		}
	}
	rows := contractRows()
	for _, row := range listed {
		if !slices.Contains(rows, row) {
			t.Errorf("%s lists %q, which is no row of the contract", decidedOtherwise, row)
		}
	}
	for _, row := range withoutTest {
		if !slices.Contains(listed, row) {
			t.Errorf("%s does not say why %s has no test", decidedOtherwise, row)
		}
	}
}

// testSources returns the text of every file that is part of a test, by path: Go
// tests, the suite of store backends, the programs of the SDK tests, transcripts.
func testSources(t *testing.T) map[string]string {
	t.Helper()
	sources := make(map[string]string)
	for _, directory := range []string{"internal", "e2e"} {
		err := filepath.WalkDir(directory, func(file string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && entry.Name() == "node_modules" {
				return filepath.SkipDir
			}
			file = filepath.ToSlash(file)
			if entry.IsDir() || !isTestSource(file) {
				return nil
			}
			text, err := os.ReadFile(file)
			sources[file] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return sources
}

func isTestSource(file string) bool {
	switch path.Ext(file) {
	case ".go":
		return strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "internal/store/storetest/")
	case ".txtar", ".mjs":
		return true
	default:
		return false
	}
}

// How tests name rows: "contract, messages 0.4, 0.6 and U-89", "workflows 7.2 and D 42" or
// "contract 4.2, rules 1 and 2", where a number alone is of the kind before it. In brackets
// the contract need not be named.
var (
	beginning  = regexp.MustCompile(`(?i)\bcontract,?\s|\(`)
	lineBreaks = regexp.MustCompile(`\s*\n\s*(//\s*)?`)
	reference  = regexp.MustCompile(`^(?:(messages|decision|(?:workflows )?D|workflows|4\.[12], rule)s? )?(U-\d+|\d+(?:\.\d+)?)\b(?:,? and |[,;] )?`)
)

// rowsIn returns the rows that a text names.
func rowsIn(text string) []string {
	text = lineBreaks.ReplaceAllString(text, " ")
	var rows []string
	for _, begin := range beginning.FindAllStringIndex(text, -1) {
		rows = append(rows, references(text[begin[1]:])...)
	}
	return rows
}

// references reads rows from the beginning of a text, as long as there are any.
// Sections about workflows are left out.
func references(text string) []string {
	var rows []string
	kind := ""
	for {
		found := reference.FindStringSubmatch(text)
		if found == nil {
			return rows
		}
		if found[1] != "" {
			kind = strings.TrimPrefix(strings.ReplaceAll(found[1], ",", ""), "workflows ")
		}
		switch {
		case strings.HasPrefix(found[2], "U-"):
			rows = append(rows, found[2])
		case kind != "" && kind != "workflows":
			rows = append(rows, kind+" "+found[2])
		}
		text = text[len(found[0]):]
	}
}

var scenarioName = regexp.MustCompile(`/scenarios/([^/]+)/(U-\d+|decision-\d+|\d+(?:\.\d+)?)-`)

// rowsOfName returns the row that a scenario is named after, and none for other files.
// Numbers of scenarios of runs are those of another part of the contract.
func rowsOfName(file string) []string {
	found := scenarioName.FindStringSubmatch(file)
	switch {
	case found == nil:
		return nil
	case found[2][0] == 'U':
		return []string{found[2]}
	case found[2][0] == 'd':
		return []string{strings.Replace(found[2], "-", " ", 1)}
	case strings.HasSuffix(found[1], "runs"):
		return nil
	default:
		return []string{"messages " + found[2]}
	}
}

func TestRowsIn(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"none":                 {"contracts, and U-1", nil},
		"a section":            {"(contract, messages 0.4).", []string{"messages 0.4"}},
		"at the beginning":     {"// Contract, U-7.", []string{"U-7"}},
		"several of a kind":    {"contract, messages 0.4, 0.6 and 3.", []string{"messages 0.4", "messages 0.6", "messages 3"}},
		"several kinds":        {"contract, decisions 1 and 25, U-2", []string{"decision 1", "decision 25", "U-2"}},
		"across lines":         {"// is so (contract,\n\t// messages 7, and U-9).", []string{"messages 7", "U-9"}},
		"up to another word":   {"contract, messages 7 and 8 more", []string{"messages 7", "messages 8"}},
		"another part of it":   {"contract, workflows 4.5 and U-1", []string{"U-1"}},
		"a decision of it":     {"contract, workflows 4.5 and D 42 and 54, workflows D 1", []string{"D 42", "D 54", "D 1"}},
		"rules":                {"contract 4.2, rules 1 and 2; decision 8", []string{"4.2 rule 1", "4.2 rule 2", "decision 8"}},
		"in brackets":          {"it stays (D 40) or (U-1, or U-2).", []string{"D 40", "U-1"}},
		"the part is not said": {"contract, 4.1", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := rowsIn(test.text); !slices.Equal(got, test.want) {
				t.Errorf("rowsIn(%q) = %q, want %q", test.text, got, test.want)
			}
		})
	}
}

func TestRowsOfName(t *testing.T) {
	tests := map[string][]string{
		"internal/api/testdata/scenarios/cancel/2.5-cancel-ids.txtar":     {"messages 2.5"},
		"internal/api/testdata/scenarios/queues/9-queue-limits.txtar":     {"messages 9"},
		"internal/api/testdata/scenarios/queues/U-34-queue-missing.txtar": {"U-34"},
		"internal/api/testdata/scenarios/dlq/decision-13-source.txtar":    {"decision 13"},
		"internal/api/testdata/scenarios/runs/trigger.txtar":              nil,
		"internal/api/testdata/scenarios/failedruns/5.3-list.txtar":       nil,
		"internal/api/testdata/scenarios/failedruns/decision-8-x.txtar":   {"decision 8"},
		"internal/api/testdata/errors/2.5-elsewhere.txtar":                nil,
	}
	for file, want := range tests {
		if got := rowsOfName(file); !slices.Equal(got, want) {
			t.Errorf("rowsOfName(%q) = %q, want %q", file, got, want)
		}
	}
}
