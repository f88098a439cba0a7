package telemetry

import (
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// routeClasses are the values of the route label, by the first path segment below
// /v2 in lower case. Whatever else is asked for is "other".
var routeClasses = map[string]string{
	"publish": "publish", "enqueue": "enqueue", "batch": "batch",
	"messages": "messages", "queues": "queues", "schedules": "schedules", "ticks": "schedules", "topics": "topics",
	"logs": "logs", "events": "logs", "dlq": "dlq", "bulkactions": "bulk_actions",
	"keys": "keys", "rotate": "keys", "readiness": "readiness", "liveness": "readiness", "usage": "usage", "server": "server",
	"flowcontrol": "flow_control", "globalparallelism": "flow_control",
	"trigger": "trigger", "wait": "wait", "waiters": "wait", "notify": "notify",
	"workflows": "workflows",
}

// statusClasses are the values of the status label, by the first digit.
var statusClasses = [...]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"}

// requestBounds are in seconds: from a read in memory to the longest wait for the disk.
var requestBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}

// Requests counts and times the requests a handler answers.
type Requests struct {
	total   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// NewRequests registers the metrics. It panics when the registerer has metrics
// of these names already.
func NewRequests(registerer prometheus.Registerer) *Requests {
	r, labels := promauto.With(prefixed(registerer)), []string{"route", "status"}
	return &Requests{
		r.NewCounterVec(prometheus.CounterOpts{Name: "http_requests_total", Help: "Requests answered, by API area and status class."}, labels),
		r.NewHistogramVec(prometheus.HistogramOpts{
			Name: "http_request_seconds", Help: "Time from a request's header to the end of its response, by API area and status class; without streams.", Buckets: requestBounds,
		}, labels),
	}
}

// Count returns a handler that answers as next does and counts.
func (c *Requests) Count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := &statusRecorder{ResponseWriter: w}
		began := time.Now()
		returned := false
		defer func() {
			if !returned && recorder.status < http.StatusOK {
				recorder.status = http.StatusInternalServerError // a panic
			}
			route, status := routeClass(r.URL.Path), statusClass(recorder.status)
			c.total.WithLabelValues(route, status).Inc()
			if w.Header().Get("Content-Type") != "text/event-stream" { // its length is the client's patience
				c.seconds.WithLabelValues(route, status).Observe(time.Since(began).Seconds())
			}
		}()
		next.ServeHTTP(recorder, r)
		returned = true
	})
}

func routeClass(path string) string {
	path, found := strings.CutPrefix(strings.TrimLeft(path, "/"), "v2/")
	if !found {
		return "other"
	}
	segment, _, _ := strings.Cut(path, "/")
	if class, known := routeClasses[strings.ToLower(segment)]; known {
		return class
	}
	return "other"
}

func statusClass(status int) string {
	if status == 0 {
		status = http.StatusOK // nothing was written: net/http answers 200
	}
	if class := status / 100; class < len(statusClasses) {
		return statusClasses[class]
	}
	return statusClasses[0]
}

// statusRecorder remembers the status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader remembers the final status; those of the 1xx class precede it.
func (r *statusRecorder) WriteHeader(status int) {
	if r.status < http.StatusOK {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
