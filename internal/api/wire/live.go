package wire

import (
	"net/url"

	"posthaste"
)

// Live reads the filter of a bulk cancellation (contract, messages 2.5). Dates are creation times.
func Live(params url.Values) (posthaste.Filter, error) { return parameters(params).live(live) }

// LiveRuns reads the filter of a bulk cancellation of runs (contract, workflows 6.2). Dates are
// creation times.
func LiveRuns(params url.Values) (filter posthaste.Filter, err error) {
	if filter, err = parameters(params).live(liveRuns); err != nil {
		return filter, err
	}
	exact, err := Flag(params, "workflowUrlExactMatch")
	if !exact {
		filter.URLs, filter.URLPrefixes = nil, filter.URLs
	}
	return filter, err
}

func (p parameters) live(of call) (f posthaste.Filter, err error) {
	if err := p.checkNames(of, "count", "async"); err != nil {
		return f, err
	}
	if err := p.checkValues(of.names()); err != nil {
		return f, err
	}
	if !p.lost("cursor") && p["cursor"] != nil { // every call would start at the beginning
		return f, posthaste.Invalidf("cursor %.100q cannot be given here: a cancellation has no pages, repeat it until it cancels nothing more", p["cursor"][0])
	}
	return p.filter(of)
}
