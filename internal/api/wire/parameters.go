package wire

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"posthaste"
)

// maxValues limits the values of one filter, each of which is searched for.
const maxValues = 1000

// parameters are a query's parameters. An empty value counts as missing.
type parameters url.Values

// tolerated are parameters that some clients add to every request (contract, U-27).
var tolerated = []string{"api", "count", "cursor", "order"}

// RefuseAll returns an error if there are parameters.
func RefuseAll(params url.Values) error { return CheckNames(params) }

// CheckNames returns an error for a parameter that is not known (contract, decision 16).
func CheckNames(params url.Values, known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(known, name) {
			return posthaste.Invalidf("parameter %.100q is unknown: %s", name, accepted(known))
		}
	}
	return nil
}

// accepted completes the error about an unknown name.
func accepted(names []string) string {
	switch len(names) {
	case 0:
		return "none is accepted here"
	case 1:
		return names[0] + " is accepted"
	default:
		return strings.Join(names, ", ") + " are accepted"
	}
}

// checkNames returns an error for a parameter that is neither a filter of the call, exact or not,
// nor one of others.
func (p parameters) checkNames(of call, others ...string) error {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		filters := of.names()
		known := slices.Contains(filters, strings.TrimSuffix(name, exact)) || slices.Contains(others, name)
		if !known && !slices.Contains(tolerated, name) {
			return posthaste.Invalidf("parameter %.100q is unknown: %s", name, accepted(append(filters, others...)))
		}
	}
	return nil
}

// checkValues returns an error for a filter, or a count, without value: it was probably lost, and
// everything would match.
func (p parameters) checkValues(filters []string) error {
	for _, name := range filters {
		if p.lost(name) {
			return posthaste.Invalidf("%s has no value: give one, or leave it out to select by other filters or everything", name)
		}
	}
	if p.lost("count") {
		return posthaste.Invalidf("count has no value: give one, or leave it out to change as many as one call can")
	}
	return nil
}

// lost reports whether a parameter has no value.
func (p parameters) lost(name string) bool {
	return p.given(name) && len(p.distinct(parts, name)) == 0
}

// given reports whether a parameter is present, exact or not.
func (p parameters) given(name string) bool {
	_, asList := p[name]
	_, exactly := p[name+exact]
	return asList || exactly
}

// One returns a parameter with a single value, "" if it is missing.
func One(params url.Values, name string) (string, error) { return parameters(params).one(name) }

// one returns a parameter with a single value.
func (p parameters) one(name string) (string, error) {
	values := p[name]
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	default:
		return "", posthaste.Invalidf("%s is given %d times, it can have one value", name, len(values))
	}
}

// date returns the first or last position of a parameter that is a time, 0 if it is missing.
func (p parameters) date(name string, position func(time.Time) posthaste.Position) (posthaste.Position, error) {
	text, err := p.one(name)
	if text == "" || err != nil {
		return 0, err
	}
	at, ok := parseMillis(text)
	if !ok {
		return 0, invalid(name, text, "a Unix time in milliseconds")
	}
	return position(at), nil
}

// parseMillis parses a Unix time in milliseconds.
func parseMillis(text string) (time.Time, bool) {
	ms, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(ms)), true
}

// list returns the distinct values of a filter under all of its names. split splits values.
func (p parameters) list(split func(string) []string, names ...string) ([]string, error) {
	list := p.distinct(split, names...)
	if len(list) > maxValues {
		given := names[slices.IndexFunc(names, p.given)]
		return nil, posthaste.Invalidf("%s has more than the %d values that it can have", given, maxValues)
	}
	return list, nil
}

// distinct returns the distinct non-empty values in order, split ones first, then exact ones; nil
// if there are none.
func (p parameters) distinct(split func(string) []string, names ...string) []string {
	var texts []string
	seen := map[string]bool{"": true}
	add := func(more ...string) {
		for _, text := range more {
			if !seen[text] {
				seen[text] = true
				texts = append(texts, text)
			}
		}
	}
	for _, name := range names {
		for _, list := range p[name] {
			add(split(list)...)
		}
		add(p[name+exact]...)
	}
	return texts
}

// parts splits a comma-separated list.
func parts(value string) []string {
	list := strings.Split(value, ",")
	for i, part := range list {
		list[i] = strings.TrimSpace(part)
	}
	return list
}

// wholeAndParts returns a value whole and split, for values such as URLs that may contain commas
// (contract, U-66).
func wholeAndParts(value string) []string {
	return append(parts(value), value)
}

// invalid returns the error about a value.
func invalid(name, value, accepted string) error {
	return posthaste.Invalidf("%s %.100q is not %s", name, value, accepted)
}

// IDs returns the distinct values of a parameter that lists ids, nil if it is missing. Their
// number is not limited. An empty list in a body is a list, and selects nothing (contract,
// workflows D 38).
func IDs(params url.Values, name string) ([]string, error) {
	p := parameters(params)
	if values, given := p[name]; given && len(values) == 0 && p[name+exact] == nil {
		return []string{}, nil
	}
	if err := p.checkValues([]string{name}); err != nil {
		return nil, err
	}
	return p.distinct(parts, name), nil
}
