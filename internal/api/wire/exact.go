package wire

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"posthaste"
)

// exact is the suffix of a parameter whose values are not split at commas: "label[]" is one
// label. Elements of arrays in a body are stored like this, also with a bulk action; a query may
// use it too.
const exact = "[]"

// SetElements sets a parameter to the elements of an array.
func SetElements(params url.Values, name string, elements []string) {
	delete(params, name+exact)
	params[name] = []string{}
	for _, element := range elements {
		key := name
		if split := parts(element); len(split) != 1 || split[0] != element {
			key += exact
		}
		params[key] = append(params[key], element)
	}
	if len(params[name]) == 0 && params.Has(name+exact) {
		delete(params, name)
	}
}

// Without returns the parameters without one.
func Without(params url.Values, name string) url.Values {
	rest := maps.Clone(params)
	delete(rest, name)
	delete(rest, name+exact)
	return rest
}

// Merge merges the parameters of query and body. ids of both are combined (contract, workflows D
// 1); other parameters in both must be equal: ignoring one of two filters would change more than
// asked for.
func Merge(query, body url.Values, ids string) (url.Values, error) {
	merged := url.Values{}
	maps.Copy(merged, body)
	maps.Copy(merged, query)
	for key := range body {
		switch name := strings.TrimSuffix(key, exact); {
		case name == ids:
			merged[key] = slices.Concat(query[key], body[key])
		case disagree(query, name, body, name), disagree(query, otherName[name], body, name):
			return nil, posthaste.Invalidf("%.100s is given in the query and in the body, with different values: give it once", name)
		}
	}
	return merged, nil
}

// otherName has the synonyms of filters.
var otherName = map[string]string{
	"callerIp": "callerIP", "callerIP": "callerIp",
	"topicName": "urlGroup", "urlGroup": "topicName", // an SDK sends both
	"workflowUrl": "url", "url": "workflowUrl",
}

// disagree reports whether query and body have different values for a parameter.
func disagree(query url.Values, inQuery string, body url.Values, inBody string) bool {
	if inQuery == "" || !parameters(query).given(inQuery) {
		return false
	}
	asked, given := parameters(query).distinct(parts, inQuery), parameters(body).distinct(parts, inBody)
	slices.Sort(asked)
	slices.Sort(given)
	return !slices.Equal(asked, given)
}

// Background returns the filter of a background bulk action: the parameters without those that
// have no effect. It rejects count and cursor, because the action changes everything that
// matches.
func Background(params url.Values) (url.Values, error) {
	for _, name := range []string{"count", "cursor"} {
		if _, given := params[name]; given {
			return nil, posthaste.Invalidf("%s cannot be given with async=true, which changes everything that the filters match", name)
		}
	}
	filter := maps.Clone(params)
	maps.DeleteFunc(filter, func(name string, _ []string) bool {
		return name == "async" || slices.Contains(tolerated, name)
	})
	return filter, nil
}

// Flag returns a parameter that is true or false in any letter case, false if it is missing. No
// value is an error: a client that sends ?dryRun means true.
func Flag(params url.Values, name string) (bool, error) {
	text, err := parameters(params).one(name)
	if _, given := params[name]; !given || err != nil {
		return false, err
	}
	switch strings.ToLower(text) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	default:
		return false, invalid(name, text, "true or false")
	}
}
