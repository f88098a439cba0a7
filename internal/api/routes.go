package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"

	"posthaste/internal/selection"
)

// route is a row of the table of routes.
type route struct {
	pattern string // method and path; * takes the rest of the path as it was sent
	access  access
	handle  func(r *request) (answer, error)
}

// anyMethod stands for all methods in a pattern.
const anyMethod = "ANY"

// routes is the whole surface.
func (a *api) routes() []route {
	return slices.Concat(a.messageRoutes(), a.runRoutes(), a.failedRunRoutes(), a.runLogRoutes())
}

func (a *api) messageRoutes() []route {
	return []route{
		{"POST /v2/publish/*", submit, a.publish},
		{"POST /v2/enqueue/{queue}/*", submit, a.enqueue},
		{"POST /v2/batch", submit, plain(a.publishBatch)},

		{"GET /v2/messages/{id}", read, plain(a.getMessage)},
		{"DELETE /v2/messages/{id}", submit, alone(a.cancelMessage)},
		{"POST /v2/messages/{id}/retry", submit, alone(a.runMessageNow)},
		{"DELETE /v2/messages", submit, a.cancelMessages},
		{"DELETE /v2/messages/", write, refuseEmptyID},

		{"GET /v2/queues", read, plain(a.listQueues)},
		{"POST /v2/queues", submit, plain(a.putQueue)},
		{"GET /v2/queues/{queue}", read, plain(a.getQueue)},
		{"DELETE /v2/queues/{queue}", submit, alone(a.deleteQueue)},
		{"POST /v2/queues/{queue}/pause", submit, alone(a.pauseQueue)},
		{"POST /v2/queues/{queue}/resume", submit, alone(a.resumeQueue)},

		{"GET /v2/topics", read, plain(a.listGroups)},
		{"GET /v2/topics/{group}", read, plain(a.getGroup)},
		{"PATCH /v2/topics/{group}", submit, plain(a.setGroupHeaders)},
		{"DELETE /v2/topics/{group}", submit, alone(a.deleteGroup)},
		{"POST /v2/topics/{group}/endpoints", submit, plain(a.addEndpoints)},
		{"DELETE /v2/topics/{group}/endpoints", submit, plain(a.removeEndpoints)},

		{"GET /v2/schedules", read, plain(a.listSchedules)},
		{"POST /v2/schedules/*", submit, a.createSchedule},
		{"GET /v2/schedules/{schedule}", read, plain(a.getSchedule)},
		{"DELETE /v2/schedules/{schedule}", submit, alone(a.deleteSchedule)},
		{"POST /v2/schedules/{schedule}/pause", submit, alone(a.pauseSchedule)},
		{"POST /v2/schedules/{schedule}/resume", submit, alone(a.resumeSchedule)},
		{"PATCH /v2/schedules/{schedule}/pause", submit, alone(a.pauseSchedule)},
		{"PATCH /v2/schedules/{schedule}/resume", submit, alone(a.resumeSchedule)},

		{"GET /v2/ticks", read, a.getTicks},

		{"GET /v2/dlq", read, a.listDeadLetters},
		{"DELETE /v2/dlq", submit, a.deleteDeadLetters},
		{"DELETE /v2/dlq/", write, refuseEmptyID},
		{"GET /v2/dlq/{id}", read, plain(a.getDeadLetter)},
		{"DELETE /v2/dlq/{id}", submit, alone(a.deleteDeadLetter)},
		{"POST /v2/dlq/retry", submit, controlled(a.retryDeadLetters)},
		{"POST /v2/dlq/retry/", write, refuseEmptyID},
		{"POST /v2/dlq/retry/{id}", submit, controlled(alone(a.retryDeadLetter))},

		{"GET /v2/bulkActions", read, plain(a.listActions)},
		{"GET /v2/bulkActions/{id}", read, plain(a.getAction)},
		{"DELETE /v2/bulkActions/{id}", submit, alone(a.cancelAction)},

		{"GET /v2/logs", read, a.listLogs},
		{"GET /v2/events", read, a.listEvents},

		{"GET /v2/flowControl", read, a.listFlowKeys},
		{"GET /v2/flowControl/*", read, plain(a.getFlowKey)},
		{"DELETE /v2/flowControl/*", submit, alone(a.deleteFlowKey)},
		{"POST /v2/flowControl/*", submit, a.changeFlowKey},
		{"GET /v2/globalParallelism", read, plain(a.getGlobalParallelism)},

		{"GET /v2/usage", read, plain(a.getUsage)},

		{"GET /v2/readiness", open, a.getReadiness},
		{"GET /v2/liveness", open, a.getLiveness},

		{"GET /v2/keys", secrets, plain(a.getKeys)},
		{"POST /v2/keys/rotate", submit, alone(a.rotateKeys)},
		{"POST /v2/rotate", submit, alone(a.rotateKeys)},
	}
}

// plain makes the handler of a route that takes no query parameters of its own: one
// that is not understood is not passed over (contract, decision 16).
func plain(handle func(r *request) (answer, error)) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		params, err := r.params()
		if err != nil {
			return answer{}, err
		}
		if err := selection.RefuseAll(params); err != nil {
			return answer{}, err
		}
		return handle(r)
	}
}

// alone makes the handler of a change of the one thing in the path. What a call on many
// would heed in a body is refused like anything else that is asked for in vain: a dry run
// must not become a change.
func alone(change func(r *request) (answer, error)) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		params, _, err := r.callParameters("")
		if err != nil {
			return answer{}, err
		}
		if err := selection.RefuseAll(params); err != nil {
			return answer{}, err
		}
		return change(r)
	}
}

// controlled makes the handler of a route whose query may have controls, as its headers.
func controlled(handle func(r *request) (answer, error)) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		r.controls = true
		return handle(r)
	}
}

// newRouter makes a router of the table. A slash too many at the end of a path
// is forgiven, unless the table has a row for it, and what can be got can be asked
// for with HEAD (RFC 9110, 9.1): the server leaves the body out then.
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
	for name := range nameMethods {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodDelete} {
			router.Method(method, name, http.HandlerFunc(a.refuseMethod))
			router.Method(method, name+"/", http.HandlerFunc(a.refuseMethod))
		}
	}
	router.NotFound(a.refuseRoute)
	router.MethodNotAllowed(a.refuseMethod)
	return router
}

func (a *api) addRoute(router *chi.Mux, pattern string, route route) {
	method, path, _ := strings.Cut(pattern, " ")
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := a.serve(w, r, route)
		a.render(w, r, answer, err)
	})
	if method == anyMethod {
		router.Handle(path, handler)
		return
	}
	router.Method(method, path, handler)
	if method == http.MethodGet {
		router.Method(http.MethodHead, path, handler)
	}
}

// routings are kept because the router fills several lists in each.
var routings = sync.Pool{New: func() any { return chi.NewRouteContext() }}

// ServeHTTP routes by the path as it was sent. Nothing is cleaned and nobody is
// redirected: a client that follows a redirect turns its POST into a GET.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	routing := routings.Get().(*chi.Context)
	defer routings.Put(routing)
	routing.Reset()
	routing.RoutePath = routePath(targetOf(r).path)
	a.router.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, routing)))
}

// routePath returns a path as the table has it: one SDK spells a segment with a
// capital letter (contract, messages 0.7).
func routePath(path string) string {
	const schedules = "/v2/schedules"
	if !hasPrefixFold(path, schedules) {
		return path
	}
	return schedules + path[len(schedules):]
}

// worksAtOnce reports whether a request is admitted to be worked on before its handler is
// called. A body that is to be read is waited for first, and one that is not read must be
// no way around the gate.
func (route route) worksAtOnce(r *http.Request) bool {
	switch {
	case route.access == open || readsPages[route.pattern]:
		return false
	case route.access == submit:
		return r.ContentLength == 0
	default:
		return true
	}
}

func (a *api) serve(w http.ResponseWriter, r *http.Request, route route) (answer, error) {
	var served answer
	req, err := a.newRequest(w, r)
	if err == nil {
		served, err = a.handle(req, route)
	}
	if route.isForRun(r.Header) || req != nil && req.forRun {
		err = failRun(err)
	}
	return served, err
}

// handle admits a request of an authenticated caller and has it handled.
func (a *api) handle(r *request, route route) (answer, error) {
	if err := a.authenticate(r, route.access); err != nil {
		return answer{}, err
	}
	defer r.leave()
	if route.worksAtOnce(r.Request) {
		if err := r.work(); err != nil {
			return answer{}, err
		}
	}
	answer, err := route.handle(r)
	return answer, r.nameLimit(err)
}
