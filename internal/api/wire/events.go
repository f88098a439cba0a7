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
	filter, err := p.filter("")
	if err != nil {
		return query, err
	}
	query.Filter = store.EventsMatching(&filter)
	if query.Filter.States, err = p.states(); err != nil {
		return query, err
	}
	if query.Limit, err = count.Read(params); err != nil {
		return query, err
	}
	limit, err := BodyLimit(params)
	if err != nil {
		return query, err
	}
	query.Bare = limit == 0
	r, err := p.rangeOf(&filter, false)
	if err != nil {
		return query, err
	}
	err = r.readCursor(p)
	query.Low, query.High, query.OldestFirst = r.Low, r.High, r.OldestFirst
	return query, err
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
