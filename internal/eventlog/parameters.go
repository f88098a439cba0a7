package eventlog

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"posthaste"
)

// maxValues bounds the values of one filter: each costs a search of its own.
const maxValues = 1000

// parameters are the parameters of a query by name. An empty value counts as
// one that was not given.
type parameters url.Values

// one returns the value of a parameter that can have only one.
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

// date returns the value of a parameter that is a time.
func (p parameters) date(name string) (at time.Time, given bool, err error) {
	text, err := p.one(name)
	if text == "" || err != nil {
		return time.Time{}, false, err
	}
	at, ok := parseMillis(text)
	if !ok {
		return time.Time{}, false, invalid(name, text, "a Unix time in milliseconds")
	}
	return at, true, nil
}

// list returns the distinct values of a filter, which may have several names:
// each of them may be repeated, and split takes lists apart.
func (p parameters) list(split func(string) []string, names ...string) ([]string, error) {
	var list []string
	for _, name := range names {
		for _, value := range p[name] {
			for _, part := range split(value) {
				if part == "" || slices.Contains(list, part) {
					continue
				}
				if len(list) == maxValues {
					return nil, posthaste.Invalidf("%s has more than the %d values that it can have", name, maxValues)
				}
				list = append(list, part)
			}
		}
	}
	return list, nil
}

// parts takes a list with commas apart.
func parts(value string) []string {
	list := strings.Split(value, ",")
	for i, part := range list {
		list[i] = strings.TrimSpace(part)
	}
	return list
}

// wholeAndParts is for filters whose values may contain commas themselves, such
// as URLs: a value counts as a whole and by its parts (contract, U-66).
func wholeAndParts(value string) []string {
	return append(parts(value), value)
}

// invalid is the error of a bad value.
func invalid(name, value, accepted string) error {
	return posthaste.Invalidf("%s %.100q is not %s", name, value, accepted)
}
