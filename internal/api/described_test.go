package api_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"posthaste/internal/api"
	"posthaste/internal/openapi"
)

// TestRoutesAreDescribed checks that the description of the API has every route, and no
// other one. That of an answer is checked wherever a test gets it: see
// openapitest.Handler.
func TestRoutesAreDescribed(t *testing.T) {
	document, err := openapi.Parse()
	if err != nil {
		t.Fatal(err)
	}
	var described []string
	for _, o := range document.Operations() {
		if strings.HasPrefix(o.Path, "/v2/") {
			described = append(described, nameless(o.Method+" "+o.Path))
		}
	}
	var routed []string
	for _, pattern := range api.Patterns() {
		routed = append(routed, methodsOf(nameless(pattern))...)
	}
	for _, route := range routed {
		if !slices.Contains(described, route) {
			t.Errorf("route %s is not in internal/openapi/openapi.yaml", route)
		}
	}
	for _, operation := range described {
		if !slices.Contains(routed, operation) {
			t.Errorf("internal/openapi/openapi.yaml describes %s, which is no route", operation)
		}
	}
}

var parameter = regexp.MustCompile(`\{[^}]+\}|\*`)

// nameless returns a route without the names of its parameters, which differ.
func nameless(route string) string { return parameter.ReplaceAllString(route, "{}") }

// methodsOf returns a route of any method once for each that can be described.
func methodsOf(route string) []string {
	path, any := strings.CutPrefix(route, "ANY ")
	if !any {
		return []string{route}
	}
	var routes []string
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		routes = append(routes, method+" "+path)
	}
	return routes
}
