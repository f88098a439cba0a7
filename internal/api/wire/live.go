package wire

import (
	"net/url"

	"posthaste"
)

// liveFilters are the filters of a bulk cancellation.
var liveFilters = []string{
	"messageId", "messageIds", "url", "topicName", "urlGroup", "scheduleId", "queueName", "label", "host", "path",
	"callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
}

// Live reads the filter of a bulk cancellation (contract, messages 2.5). Dates are creation times.
func Live(params url.Values) (posthaste.Filter, error) {
	return parameters(params).liveFilter(liveFilters)
}

// liveFilter reads the filter of a cancellation that has some filters.
func (p parameters) liveFilter(filters []string) (f posthaste.Filter, err error) {
	if err := p.checkNames(filters, "count", "async"); err != nil {
		return f, err
	}
	if err := p.checkValues(filters); err != nil {
		return f, err
	}
	if err := p.checkUnpaged(); err != nil {
		return f, err
	}
	return p.filter("")
}

// liveRunFilters are the filters of a bulk cancellation of runs.
var liveRunFilters = []string{
	"workflowRunIds", "workflowUrl", "workflowUrlExactMatch", "label", "host", "path", "callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
}

// LiveRuns reads the filter of a bulk cancellation of runs (contract, workflows 6.2). Dates are
// creation times.
func LiveRuns(params url.Values) (filter posthaste.Filter, err error) {
	filter, err = parameters(params).liveFilter(liveRunFilters)
	if err != nil {
		return filter, err
	}
	exact, err := Flag(params, "workflowUrlExactMatch")
	if !exact {
		filter.URLs, filter.URLPrefixes = nil, filter.URLs
	}
	return filter, err
}
