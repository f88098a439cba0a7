package api

import (
	"maps"
	"slices"
	"strings"
)

// Patterns returns the table of routes as it can be described: each with its method and
// path. Rows that only refuse a request without an id are left out, and the one that
// stands for all changes of a flow-control key is there once for each.
func Patterns() []string {
	var patterns []string
	for _, route := range (&api{}).routes() {
		switch {
		case strings.HasSuffix(route.pattern, "/"):
		case route.pattern == "POST /v2/flowControl/*":
			for _, change := range slices.Sorted(maps.Keys(flowKeyChanges)) {
				patterns = append(patterns, route.pattern+"/"+change)
			}
		default:
			patterns = append(patterns, route.pattern)
		}
	}
	return patterns
}
