package wire

import (
	"net/url"
	"strings"

	"posthaste"
	"posthaste/internal/store"
)

// eventFilters are the filters of the log.
var eventFilters = []string{
	"messageId", "messageIds", "state", "url", "topicName", "urlGroup", "scheduleId", "queueName", "label", "host", "path",
	"callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
}

// Events reads the parameters of a log query (contract 4.1, messages 2.10). The caller applies
// trimBody, see BodyLimit.
func Events(params url.Values, count Count) (query store.EventQuery, err error) {
	p := parameters(params)
	if err := p.checkNames(eventFilters, "count", "cursor", "order", "trimBody"); err != nil {
		return query, err
	}
	query.High = posthaste.MaxPosition
	if query.Limit, err = count.Read(params); err != nil {
		return query, err
	}
	if query.OldestFirst, err = p.order(false); err != nil {
		return query, err
	}
	limit, err := BodyLimit(params)
	if err != nil {
		return query, err
	}
	query.Bare = limit == 0
	within := rangeOf{&query.Low, &query.High, query.OldestFirst}
	if err := within.readDates(p); err != nil {
		return query, err
	}
	if err := within.readCursor(p); err != nil {
		return query, err
	}
	if query.Filter.States, err = p.states(); err != nil {
		return query, err
	}
	return query, readMessageFilter(&query.Filter, p)
}

// readMessageFilter reads the filters that events and messages share.
func readMessageFilter(f *store.EventFilter, p parameters) (err error) {
	if f.MessageIDs, err = p.messageIDs(); err != nil {
		return err
	}
	return p.texts([]textFilter{
		{&f.URLs, []string{"url"}},
		{&f.URLGroups, []string{"topicName", "urlGroup"}},
		{&f.ScheduleIDs, []string{"scheduleId"}},
		{&f.Queues, []string{"queueName"}},
		{&f.Labels, []string{"label"}},
		{&f.Hosts, []string{"host"}},
		{&f.Paths, []string{"path"}},
		{&f.CallerIPs, []string{"callerIp", "callerIP"}},
		{&f.FlowKeys, []string{"flowControlKey"}},
	})
}

// inProgress is a value of the state filter that stands for inProgressStates.
const inProgress = "IN_PROGRESS"

var inProgressStates = []posthaste.State{posthaste.StateActive, posthaste.StateRetry, posthaste.StateError}

func (p parameters) states() (states []posthaste.State, err error) {
	texts, err := p.list(parts, "state")
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		more, err := parseState(text)
		if err != nil {
			return nil, err
		}
		states = append(states, more...)
	}
	return states, nil
}

func parseState(text string) ([]posthaste.State, error) {
	if strings.EqualFold(text, inProgress) {
		return inProgressStates, nil
	}
	state, ok := posthaste.ParseState(text)
	if !ok {
		return nil, invalid("state", text, "one of "+stateNames())
	}
	return []posthaste.State{state}, nil
}

func stateNames() string {
	var names strings.Builder
	for _, state := range posthaste.States {
		names.WriteString(string(state) + ", ")
	}
	return names.String() + inProgress
}

// liveFilters are the filters of a bulk cancellation.
var liveFilters = []string{
	"messageId", "messageIds", "url", "topicName", "urlGroup", "scheduleId", "queueName", "label", "host", "path",
	"callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
}

// Live reads the filter of a bulk cancellation (contract, messages 2.5), except count. Dates are
// creation times.
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
