package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/workflow"
)

// route is an entry of the routing table.
type route struct {
	pattern string // method and path; * is the rest of the path as sent
	access  access
	handle  func(r *request) (answer, error)
}

// anyMethod matches all methods.
const anyMethod = "ANY"

func (a *api) routes() []route {
	return slices.Concat(a.messageRoutes(), a.runRoutes(), a.failedRunRoutes(), a.runLogRoutes())
}

func (a *api) messageRoutes() []route {
	return []route{
		{"POST /v2/publish/*", submit, a.publish},
		{"POST /v2/enqueue/{queue}/*", submit, a.enqueue},
		{"POST /v2/batch", submit, withoutQuery(a.publishBatch)},

		{"GET /v2/messages/{id}", read, withoutQuery(of((*request).messageID, a.getMessage))},
		{"DELETE /v2/messages/{id}", submit, withoutBody(of((*request).messageID, a.cancelMessage))},
		{"POST /v2/messages/{id}/retry", submit, withoutBody(of((*request).messageID, a.runMessageNow))},
		{"DELETE /v2/messages", submit, a.cancelMessages},
		{"DELETE /v2/messages/", write, refuseEmptyID},

		{"GET /v2/queues", read, withoutQuery(a.listQueues)},
		{"POST /v2/queues", submit, withoutQuery(a.putQueue)},
		{"GET /v2/queues/{queue}", read, withoutQuery(of(queueName, a.getQueue))},
		{"DELETE /v2/queues/{queue}", submit, withoutBody(of(queueName, a.deleteQueue))},
		{"POST /v2/queues/{queue}/pause", submit, withoutBody(of(queueName, a.pauseQueue(true)))},
		{"POST /v2/queues/{queue}/resume", submit, withoutBody(of(queueName, a.pauseQueue(false)))},

		{"GET /v2/topics", read, withoutQuery(a.listGroups)},
		{"GET /v2/topics/{group}", read, withoutQuery(of(groupName, a.getGroup))},
		{"PATCH /v2/topics/{group}", submit, withoutQuery(of(groupName, a.setGroupHeaders))},
		{"DELETE /v2/topics/{group}", submit, withoutBody(of(groupName, a.deleteGroup))},
		{"POST /v2/topics/{group}/endpoints", submit, withoutQuery(of(groupName, a.addEndpoints))},
		{"DELETE /v2/topics/{group}/endpoints", submit, withoutQuery(of(groupName, a.removeEndpoints))},

		{"GET /v2/schedules", read, withoutQuery(a.listSchedules)},
		{"POST /v2/schedules/*", submit, of((*request).knownControls, a.createSchedule)},
		{"GET /v2/schedules/{schedule}", read, withoutQuery(of(scheduleID, a.getSchedule))},
		{"DELETE /v2/schedules/{schedule}", submit, withoutBody(of(scheduleID, a.deleteSchedule))},
		{"POST /v2/schedules/{schedule}/pause", submit, withoutBody(of(scheduleID, a.pauseSchedule(true)))},
		{"POST /v2/schedules/{schedule}/resume", submit, withoutBody(of(scheduleID, a.pauseSchedule(false)))},
		{"PATCH /v2/schedules/{schedule}/pause", submit, withoutBody(of(scheduleID, a.pauseSchedule(true)))},
		{"PATCH /v2/schedules/{schedule}/resume", submit, withoutBody(of(scheduleID, a.pauseSchedule(false)))},

		{"GET /v2/ticks", read, of((*request).params, a.getTicks)},

		{"GET /v2/dlq", read, of((*request).params, a.listDeadLetters)},
		{"DELETE /v2/dlq", submit, a.deleteEntries(a.deadLetterDLQ())},
		{"DELETE /v2/dlq/", write, refuseEmptyID},
		{"GET /v2/dlq/{id}", read, withoutQuery(of(letterID, a.getDeadLetter))},
		{"DELETE /v2/dlq/{id}", submit, withoutBody(of(letterID, a.deleteEntry(a.deadLetterDLQ())))},
		{"POST /v2/dlq/retry", submit, controlled(a.retryDeadLetters)},
		{"POST /v2/dlq/retry/", write, refuseEmptyID},
		{"POST /v2/dlq/retry/{id}", submit, controlled(withoutBody(of(letterID, a.retryDeadLetter)))},

		{"GET /v2/bulkActions", read, withoutQuery(a.listActions(false))},
		{"GET /v2/bulkActions/{id}", read, withoutQuery(of(a.actionInPath(false), a.getAction))},
		{"DELETE /v2/bulkActions/{id}", submit, withoutBody(of(a.actionInPath(false), a.cancelAction))},

		{"GET /v2/logs", read, of((*request).params, a.readLog(posthaste.StateCancelled))},
		{"GET /v2/logs/stats", read, of((*request).params, a.getStats)},
		{"GET /v2/events", read, of((*request).params, a.readLog(cancelledToSDKs))},

		{"GET /v2/flowControl", read, of((*request).params, a.listFlowKeys)},
		{"GET /v2/flowControl/*", read, withoutQuery(a.getFlowKey)},
		{"DELETE /v2/flowControl/*", submit, withoutBody(a.deleteFlowKey)},
		{"POST /v2/flowControl/*", submit, a.changeFlowKey},
		{"GET /v2/globalParallelism", read, withoutQuery(a.getGlobalParallelism)},

		{"GET /v2/usage", read, withoutQuery(a.getUsage)},
		{"GET /v2/server", read, withoutQuery(a.getServer)},

		{"GET /v2/readiness", open, a.getReadiness},
		{"GET /v2/liveness", open, a.getLiveness},

		{"GET /v2/keys", secrets, withoutQuery(a.getKeys)},
		{"POST /v2/keys/rotate", submit, withoutBody(a.rotateKeys)},
		{"POST /v2/rotate", submit, withoutBody(a.rotateKeys)},
	}
}

// of reads a part of the request for a handler.
func of[T any](read func(r *request) (T, error), handle func(r *request, part T) (answer, error)) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		part, err := read(r)
		if err != nil {
			return answer{}, err
		}
		return handle(r, part)
	}
}

// Parts of the path, named as in errors.
var (
	queueName  = pathName("queue", "queue name")
	groupName  = pathName("group", "URL group name")
	scheduleID = pathName("schedule", "schedule id")
	letterID   = dlqID(noDeadLetter)
	runDLQID   = dlqID(workflow.NoFailedRun)
)

// withoutQuery rejects query parameters (contract, decision 16).
func withoutQuery(handle func(r *request) (answer, error)) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		params, err := r.params()
		if err != nil {
			return answer{}, err
		}
		if err := wire.RefuseAll(params); err != nil {
			return answer{}, err
		}
		return handle(r)
	}
}

// withoutBody rejects parameters in query and body of a change of one thing, such as a dry run
// that would be ignored.
func withoutBody(change func(r *request) (answer, error)) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		params, _, err := r.callParameters("")
		if err != nil {
			return answer{}, err
		}
		if err := wire.RefuseAll(params); err != nil {
			return answer{}, err
		}
		return change(r)
	}
}

// controlled allows controls in the query.
func controlled(handle func(r *request) (answer, error)) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		r.controls = true
		return handle(r)
	}
}

// newRouter returns a router that also accepts a trailing slash, unless the table has that path,
// and HEAD for GET (RFC 9110, 9.1).
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

// routings reuses the router's lists.
var routings = sync.Pool{New: func() any { return chi.NewRouteContext() }}

// ServeHTTP routes by the path as sent. It never redirects, because clients would turn a POST
// into a GET.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	routing := routings.Get().(*chi.Context)
	defer routings.Put(routing)
	routing.Reset()
	routing.RoutePath = routePath(targetOf(r).path)
	a.router.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, routing)))
}

// routePath returns the path for routing: one SDK capitalises a segment (contract, messages 0.7).
func routePath(path string) string {
	const schedules = "/v2/schedules"
	if !wire.HasPrefixFold(path, schedules) {
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

// refuseRoute handles unknown paths.
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

// refuseMethod handles unknown methods.
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

var routeMethods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// nameMethods are the methods of names that stand beside ids of dead letters, and would be taken
// for one with another method.
var nameMethods = map[string]string{
	"/v2/dlq/retry":             http.MethodPost,
	"/v2/workflows/dlq/restart": http.MethodPost,
	"/v2/workflows/dlq/resume":  http.MethodPost,
}

// allowedMethods returns a path's methods for the Allow header.
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

// closestPaths returns the routes' beginnings that share the most segments with a path, and one
// more.
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

// commonSegments counts the leading segments that match a pattern.
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
