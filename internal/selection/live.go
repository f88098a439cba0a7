package selection

import (
	"net/url"

	"posthaste/internal/store"
)

// liveFilters are the filters of a bulk cancellation.
var liveFilters = []string{
	"messageId", "messageIds", "url", "topicName", "urlGroup", "scheduleId", "queueName", "label", "host", "path",
	"callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
}

// Live translates the filter of a bulk cancellation (contract, messages 2.5):
// everything but the count. Dates are those of creation.
func Live(params url.Values) (query store.LiveQuery, err error) {
	p := parameters(params)
	if err := p.checkNames(liveFilters, "count", "async"); err != nil {
		return query, err
	}
	if err := p.checkValues(liveFilters); err != nil {
		return query, err
	}
	if err := p.checkUnpaged(); err != nil {
		return query, err
	}
	if query.CreatedFrom, _, err = p.date("fromDate"); err != nil {
		return query, err
	}
	if query.CreatedUntil, _, err = p.date("toDate"); err != nil {
		return query, err
	}
	return query, readMessageFilter(&query.Filter, p)
}
