package api

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPageOfTheAPI checks that docs/api.md has every route.
func TestPageOfTheAPI(t *testing.T) {
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	parameter := regexp.MustCompile(`\\\{[a-z]+\\\}|\\\*`)
	for _, route := range new(api).routes() {
		if strings.HasSuffix(route.pattern, "/") {
			continue // it refuses an empty id
		}
		pattern := regexp.QuoteMeta(strings.Replace(route.pattern, anyMethod+" ", "any method `", 1))
		pattern = parameter.ReplaceAllLiteralString(pattern, `\{[a-z]+\}`)
		if !regexp.MustCompile(pattern + "[`/]").Match(page) {
			t.Errorf("docs/api.md does not tell of %s", route.pattern)
		}
	}
}
