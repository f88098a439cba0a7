package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"posthaste"
)

// refuseRoute answers where the table has no such path.
func (a *api) refuseRoute(w http.ResponseWriter, r *http.Request) {
	path := targetOf(r).path
	switch {
	case strings.HasPrefix(path, "/llm/"):
		a.renderError(w, r, posthaste.Errorf(posthaste.CodeNotFound,
			"this server offers no language models: publish to the URL of a provider instead of %.200q", path))
	case !strings.HasPrefix(path, "/v2/"):
		a.renderError(w, r, posthaste.Errorf(posthaste.CodeNotFound, "there is no route %.200q: all routes begin with /v2/", path))
	default:
		a.renderError(w, r, posthaste.Errorf(posthaste.CodeNotFound, "there is no route %.200q: the closest ones begin with %s",
			path, strings.Join(a.closestPaths(path), ", ")))
	}
}

// refuseMethod answers where the path has other methods.
func (a *api) refuseMethod(w http.ResponseWriter, r *http.Request) {
	path := targetOf(r).path
	allowed := a.allowedMethods(routePath(path))
	if allowed == "" {
		a.refuseRoute(w, r)
		return
	}
	w.Header().Set("Allow", allowed)
	a.renderError(w, r, posthaste.Errorf(posthaste.CodeMethod, "%.20s is not a method of %.200q, use %s", r.Method, path, allowed))
}

// routeMethods are the methods that routes have.
var routeMethods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// nameMethods are the methods of the names that stand beside the ids of dead letters.
// With another method a name would be taken for an id.
var nameMethods = map[string]string{
	"/v2/dlq/retry":             http.MethodPost,
	"/v2/workflows/dlq/restart": http.MethodPost,
	"/v2/workflows/dlq/resume":  http.MethodPost,
}

// allowedMethods returns the methods a path has, as the Allow header lists them.
func (a *api) allowedMethods(path string) string {
	if allowed, isName := nameMethods[strings.TrimSuffix(path, "/")]; isName {
		return allowed
	}
	var allowed []string
	for _, method := range routeMethods {
		if a.router.Match(chi.NewRouteContext(), method, path) {
			allowed = append(allowed, method)
		}
	}
	return strings.Join(allowed, ", ")
}

// closestPaths returns how those paths of the table begin that have the most
// segments in common with a path: by these segments and one more.
func (a *api) closestPaths(path string) []string {
	var closest []string
	most := 0
	for _, route := range a.routes() {
		_, pattern, _ := strings.Cut(route.pattern, " ")
		known := segments(pattern)
		common := commonSegments(known, segments(path))
		if common > most {
			most, closest = common, nil
		}
		beginning := strings.TrimSuffix("/"+strings.Join(known[:min(common+1, len(known))], "/"), "*")
		if common == most && !slices.Contains(closest, beginning) {
			closest = append(closest, beginning)
		}
	}
	return closest
}

func segments(path string) []string { return strings.Split(strings.Trim(path, "/"), "/") }

// commonSegments counts the segments at the beginning of a path that those of a
// pattern stand for, in any letter case.
func commonSegments(pattern, path []string) int {
	common := 0
	for common < min(len(pattern), len(path)) {
		if segment := pattern[common]; segment[0] != '{' && !strings.EqualFold(segment, path[common]) {
			break
		}
		common++
	}
	return common
}
