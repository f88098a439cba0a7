package selection

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"posthaste"
)

// exact ends the name under which values of a filter are taken as they are: of
// "label", a value is a list with commas, of "label[]" it is one label. Elements of
// arrays in a body are kept so, also with a bulk action, and a query may say it too.
const exact = "[]"

// SetElements sets a parameter to the elements of an array, which are no lists.
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

// Without returns the parameters but for one.
func Without(params url.Values, name string) url.Values {
	rest := maps.Clone(params)
	delete(rest, name)
	delete(rest, name+exact)
	return rest
}

// Unite merges the parameters of a body into those of a query. The ids that both list
// add up (contract, workflows D 1). Whatever else both give has to be the same in both:
// to pass over one of two filters would change more than was asked for.
func Unite(query, body url.Values, ids string) (url.Values, error) {
	united := url.Values{}
	maps.Copy(united, body)
	maps.Copy(united, query)
	for key := range body {
		switch name := strings.TrimSuffix(key, exact); {
		case name == ids:
			united[key] = slices.Concat(query[key], body[key])
		case disagree(query, name, body, name), disagree(query, otherName[name], body, name):
			return nil, posthaste.Invalidf("%.100s is given in the query and in the body, with different values: give it once", name)
		}
	}
	return united, nil
}

// otherName are the names of filters that have two.
var otherName = map[string]string{
	"callerIp": "callerIP", "callerIP": "callerIp",
	"topicName": "urlGroup", "urlGroup": "topicName", // an SDK gives both
	"workflowUrl": "url", "url": "workflowUrl",
}

// disagree reports whether a query gives a parameter, and other values than a body does.
func disagree(query url.Values, inQuery string, body url.Values, inBody string) bool {
	if inQuery == "" || !parameters(query).given(inQuery) {
		return false
	}
	asked, given := parameters(query).distinct(parts, inQuery), parameters(body).distinct(parts, inBody)
	slices.Sort(asked)
	slices.Sort(given)
	return !slices.Equal(asked, given)
}
