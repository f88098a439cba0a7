package main

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// logPage is a page of the log to ask for.
type logPage struct {
	name   string
	path   string // of the log that is asked
	params string
	count  int  // entries that it has to have
	middle bool // from the middle of the history on, and not from its end
}

// The logs that are asked: of all messages, of runs, and of all that happened to these.
const (
	messageLog = "/v2/logs"
	runLog     = "/v2/workflows/logs"
	runChanges = "/v2/workflows/events"
)

// aMessage and aRun stand for the ids of a message and of a run that a history has.
const aMessage, aRun = "{message}", "{run}"

// logFilter is what pages are asked for by, and how many entries they have.
type logFilter struct {
	name, params string
	count        int
}

// logFilters are the filters that are asked for, and how many entries of a page: so
// many that a log of shortLog entries has them before its middle, too.
var logFilters = []logFilter{
	{"all", "", 1000},
	{"state, most", "state=DELIVERED", 1000},
	{"state, some", "state=ERROR", 1000},
	{"url", "url=https://host-0.example.com/hook", 1000},
	{"host", "host=host-1.example.com", 1000},
	{"path", "path=/hook", 1000},
	{"label", "label=label-0", 1000},
	{"queue", "queueName=queue-0", 1000},
	{"group", "topicName=group-0", 1000},
	{"schedule", "scheduleId=schedule-0", 500},
	{"caller", "callerIp=10.0.0.7", 300},
	{"flow-control key", "flowControlKey=key-0", 1000},
	{"message", "messageId=" + aMessage, 3},
	{"two urls", "url=https://host-0.example.com/hook&url=https://host-2.example.com/hook", 1000},
	{"fifty urls", anyOf("url", 50, "https://host-%d.example.com/hook"), 1000},
	{"fifty callers", anyOf("callerIp", 50, "10.0.0.%d"), 1000},
	{"url and state", "url=https://host-0.example.com/hook&state=ERROR", 100},
	{"label and state", "label=label-0&state=DELIVERED", 1000},
	{"queue and label", "queueName=queue-0&label=label-0", 100},
	{"url and caller", "url=https://host-0.example.com/hook&callerIp=10.0.0.7", 50},
	{"url, label and state", "url=https://host-0.example.com/hook&label=label-0&state=DELIVERED", 300},
	{"url, label, queue and state", "url=https://host-0.example.com/hook&label=label-0&queueName=queue-0&state=DELIVERED", 40},
	{"rare url", "url=https://rare.example.com/hook", 100},
	{"rare label", "label=rare", 100},
	{"rare label and state", "label=rare&state=DELIVERED", 40},
	{"nothing in common", "url=https://host-0.example.com/hook&host=host-1.example.com", 0},
}

// runFilters are those of the log of runs, ten of which make the longest page, and
// runChangeFilters those of what happened to them.
var (
	runFilters = []logFilter{
		{"runs", "", 10},
		{"runs, workflow", "workflowUrl=https://flow-0.example.com/hook", 10},
		{"runs, workflow and state", "workflowUrl=https://flow-1.example.com/hook&state=RUN_SUCCESS", 10},
		{"runs, run", "workflowRunId=" + aRun, 1},
	}
	runChangeFilters = []logFilter{
		{"changes of runs", "", 300},
		{"changes of runs, workflow", "workflowUrl=https://flow-0.example.com/hook", 100},
		{"changes of runs, run", "workflowRunId=" + aRun, 5},
	}
)

// anyOf returns a parameter with n values.
func anyOf(name string, n int, value string) string {
	var params []string
	for i := range n {
		params = append(params, name+"="+fmt.Sprintf(value, i))
	}
	return strings.Join(params, "&")
}

// logPages returns the pages of a round, none of more than a tenth of the shortest log.
func logPages(shortest int) (pages []logPage) {
	add := func(path string, filters []logFilter) {
		for _, f := range filters {
			count := min(f.count, shortest/10)
			pages = append(pages,
				logPage{f.name, path, f.params, count, false},
				logPage{f.name + ", oldest first", path, f.params + "&order=earliestFirst", count, false},
				logPage{f.name + ", from the middle", path, f.params, count, true})
		}
	}
	add(messageLog, logFilters)
	add(runLog, runFilters)
	add(runChanges, runChangeFilters)
	return pages
}

// query returns the parameters of a page of the log of a history.
func (p logPage) query(h *history) (url.Values, error) {
	ids := strings.NewReplacer(aMessage, h.known.String(), aRun, h.knownRun)
	params, err := url.ParseQuery(ids.Replace(p.params))
	if err != nil {
		return nil, err
	}
	params.Set("count", strconv.Itoa(max(p.count, 1)))
	if p.middle {
		params.Set("toDate", strconv.FormatInt(h.middle().UnixMilli(), 10))
	}
	return params, nil
}
