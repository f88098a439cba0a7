package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"posthaste"
)

// route is a row of the table of routes.
type route struct {
	pattern string // method and path; * takes the rest of the path as it was sent
	access  access
	handle  func(r *request) (answer, error)
}

// routes is the whole surface.
func (a *api) routes() []route {
	return []route{
		{"POST /v2/publish/*", write, a.publish},

		{"GET /v2/messages/{id}", read, a.getMessage},
		{"DELETE /v2/messages/{id}", write, a.cancelMessage},
		{"DELETE /v2/messages/", write, refuseEmptyID},

		{"GET /v2/logs", read, a.listLogs},
		{"GET /v2/events", read, a.listEvents},

		{"GET /v2/keys", read, a.getKeys},
		{"POST /v2/keys/rotate", write, a.rotateKeys},
		{"POST /v2/rotate", write, a.rotateKeys},
	}
}

// newRouter makes a router of the table. A slash too many at the end of a path
// is forgiven, unless the table has a row for it.
func (a *api) newRouter() *chi.Mux {
	router := chi.NewRouter()
	table := a.routes()
	for _, route := range table {
		if !strings.HasSuffix(route.pattern, "*") {
			a.addRoute(router, route.pattern+"/", route)
		}
	}
	for _, route := range table {
		a.addRoute(router, route.pattern, route)
	}
	router.NotFound(a.refuseRoute)
	router.MethodNotAllowed(a.refuseMethod)
	return router
}

func (a *api) addRoute(router *chi.Mux, pattern string, route route) {
	method, path, _ := strings.Cut(pattern, " ")
	router.Method(method, path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := a.serve(w, r, route)
		a.render(w, r, answer, err)
	}))
}

// ServeHTTP routes by the path as it was sent. Nothing is cleaned and nobody is
// redirected: a client that follows a redirect turns its POST into a GET.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	routing := chi.NewRouteContext()
	routing.RoutePath = targetOf(r).path
	a.router.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, routing)))
}

func (a *api) serve(w http.ResponseWriter, r *http.Request, route route) (answer, error) {
	req, err := a.newRequest(w, r)
	if err != nil {
		return answer{}, err
	}
	if err := a.authenticate(req, route.access); err != nil {
		return answer{}, err
	}
	return route.handle(req)
}

func (a *api) refuseRoute(w http.ResponseWriter, r *http.Request) {
	a.renderError(w, r, posthaste.Errorf(posthaste.CodeNotFound, "there is no route %.200q, all begin with /v2/", targetOf(r).path))
}

func (a *api) refuseMethod(w http.ResponseWriter, r *http.Request) {
	path := targetOf(r).path
	allowed := a.allowedMethods(path)
	if allowed == "" {
		a.refuseRoute(w, r)
		return
	}
	w.Header().Set("Allow", allowed)
	a.renderError(w, r, posthaste.Errorf(posthaste.CodeMethod, "%.20s is not a method of %.200q, use %s", r.Method, path, allowed))
}

// allowedMethods returns the methods a path has, as the Allow header lists them.
func (a *api) allowedMethods(path string) string {
	var allowed []string
	for _, method := range methods {
		if a.router.Match(chi.NewRouteContext(), method, path) {
			allowed = append(allowed, method)
		}
	}
	return strings.Join(allowed, ", ")
}
